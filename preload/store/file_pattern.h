// SPDX-License-Identifier: Apache-2.0
// File names from patterns.
#ifndef CT_PATTERN_H
#define CT_PATTERN_H

#include <stddef.h>

// Expands %p %P %e %h %t %n %r %q{VAR} %% (options.def); `number` is what %n stands for. Whatever
// comes from outside (%e %h %r %q) loses its slashes and control characters, so that a name cannot
// lead elsewhere. Returns the length, 0 if it does not fit. An unknown % letter stays as it is.
size_t ct_file_pattern_expand(const char *pattern, unsigned number, char *out, size_t size);

// Whether the pattern has a %n.
int ct_file_pattern_has_counter(const char *pattern);

// The base name of the running program, at most 64 bytes, "unknown" if it cannot be told.
void ct_process_id_get_program_name(char *out, size_t size);

#endif

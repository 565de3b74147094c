// SPDX-License-Identifier: Apache-2.0
// Expands the pattern of CUTRACE_OUTPUT to a file name. Drain lock held.
#ifndef CT_STORE_FILE_PATTERN_H
#define CT_STORE_FILE_PATTERN_H

#include <stddef.h>

// Expands %p %P %e %h %t %n %r %q{VAR} %% (options.def); %n becomes `number`. Values from outside
// (%e %h %r %q) lose slashes and control characters, so that they cannot name another folder. An
// unknown letter stays as it is. Returns the length of the name, 0 if it does not fit.
size_t ct_file_pattern_expand(const char *pattern, unsigned number, char *out, size_t size);

// Whether the pattern contains %n.
int ct_file_pattern_has_counter(const char *pattern);

#endif

// SPDX-License-Identifier: Apache-2.0
// The call site that a stack is named by, as the report chooses it (noise.h): the innermost frame
// of the best rank. Drain lock held.
#ifndef CT_WRITE_CALLER_H
#define CT_WRITE_CALLER_H

#include "store/loaded_modules.h"

// Writes its name: a line of Python, a function, or module+0xoffset. Returns its length, or 0.
size_t ct_caller_format(uint32_t stack, char *out, size_t size);

// The module of the first frame, from place *frame outwards, whose symbol could change that name;
// NULL: none is missing. *frame: its place.
struct ct_loaded_module *ct_caller_find_module(uint32_t stack, uint32_t *frame);

#endif

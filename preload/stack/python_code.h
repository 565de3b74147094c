// SPDX-License-Identifier: Apache-2.0
// What a trace holds of a code object: function, file and line; and a hash of them. Each function
// reads a code object that is in a live frame of the calling thread, so that it cannot go away (P1
// and P2 of python_walk.h).
#ifndef CT_PYTHON_CODE_H
#define CT_PYTHON_CODE_H

#include <stdint.h>

#include "stack/python_layout.h"

// The line of an instruction, by its offset in bytes, negative if that is not known; 0 if it has
// none.
uint32_t ct_python_code_line(const struct ct_python_layout *layout, uintptr_t code, long offset);

// The file name that was hashed last: neighbours on a stack often share it. Valid for one walk.
// `object` 0: none yet.
struct ct_python_code_file {
    uintptr_t object;
    uint64_t hash;
};

// A hash of all that describes this code, but the instruction.
uint64_t ct_python_code_hash(const struct ct_python_layout *layout, uintptr_t code,
                             struct ct_python_code_file *last);

// The id of the text (cutrace/format/journal.h) of this code: function and file. 0: the table is
// full.
uint32_t ct_python_code_intern(const struct ct_python_layout *layout, uintptr_t code);

#endif

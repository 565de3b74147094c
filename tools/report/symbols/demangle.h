// SPDX-License-Identifier: Apache-2.0
// C++ and Rust names as people write them.
#ifndef CT_DEMANGLE_H
#define CT_DEMANGLE_H

#include <stddef.h>

enum ct_demangling {
    CT_DEMANGLE_FULL,   // at::Tensor at::native::empty<float>(c10::ArrayRef<long>)
    CT_DEMANGLE_SIMPLE, // at::native::empty: what a person calls it
    CT_DEMANGLE_NO,
};

// Writes a symbol's name, NUL-terminated, at most `size` bytes; 0 if it is no mangled one (or none
// is to be changed), else its length.
size_t ct_demangle(const char *symbol, size_t length, enum ct_demangling how, char *to,
                   size_t size);

#endif

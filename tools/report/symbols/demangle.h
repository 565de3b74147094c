// SPDX-License-Identifier: Apache-2.0
// C++ and Rust symbols as names that people write.
#ifndef CT_DEMANGLE_H
#define CT_DEMANGLE_H

#include <stddef.h>

enum ct_demangling {
    CT_DEMANGLE_FULL,   // at::Tensor at::native::empty<float>(c10::ArrayRef<long>)
    CT_DEMANGLE_SIMPLE, // at::native::empty: what a person calls it
    CT_DEMANGLE_NO,
};

// Writes the name of a symbol, NUL-terminated, at most `size` bytes. Returns its length; 0 if the
// symbol is not mangled, or with CT_DEMANGLE_NO.
size_t ct_demangle(const char *symbol, size_t length, enum ct_demangling how, char *to,
                   size_t size);

#endif

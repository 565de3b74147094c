// SPDX-License-Identifier: Apache-2.0
// C++ names as people write them.
#ifndef CT_DEMANGLE_H
#define CT_DEMANGLE_H

#include <stddef.h>

// Writes the demangled form of a symbol, NUL-terminated, at most `size` bytes; 0 if it is no C++
// symbol, else its length.
size_t ct_demangle(const char *symbol, size_t length, char *to, size_t size);

#endif

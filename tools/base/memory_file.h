// SPDX-License-Identifier: Apache-2.0
// Texts as files in memory, for functions that open what they read by its path.
#ifndef CT_MEMORY_FILE_H
#define CT_MEMORY_FILE_H

#include <stddef.h>

enum { CT_MEMORY_FILE_PATH = 40 };

// Writes n bytes into a file in memory. Returns its descriptor; `path` is its path for as long as
// that is open. Ends the program where there is no memory (heap.h).
int ct_memory_file_make(const void *bytes, size_t n, char path[CT_MEMORY_FILE_PATH]);

#endif

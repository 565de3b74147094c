// SPDX-License-Identifier: Apache-2.0
// Reads small files of /proc and /sys into the caller's memory, without stdio.
#ifndef CT_READ_FILE_H
#define CT_READ_FILE_H

#include <stddef.h>

// Returns how many bytes were read, at most `size`; 0 if the file cannot be read. Adds no terminator.
size_t ct_read_file(const char *path, char *out, size_t size);

#endif

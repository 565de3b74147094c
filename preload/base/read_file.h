// SPDX-License-Identifier: Apache-2.0
// Reads small files of /proc and /sys into the caller's memory, without stdio. Any thread.
#ifndef CT_BASE_READ_FILE_H
#define CT_BASE_READ_FILE_H

#include <stddef.h>

// Reads at most `size` bytes and adds no terminator. Returns how many bytes were read; 0 if the
// file cannot be read.
size_t ct_read_file(const char *path, char *out, size_t size);

#endif

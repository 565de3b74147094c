// SPDX-License-Identifier: Apache-2.0
// Opens the files that a user names as input. The file may be a stranger's: a link to a device that
// never ends, or a FIFO without a writer, in which open would block. So only regular files are
// opened, and the pipes that the shell makes for the program (/dev/fd/N, /dev/stdin).
#ifndef CT_INPUT_FILE_H
#define CT_INPUT_FILE_H

#include <stdio.h>
#include <sys/stat.h>

// A descriptor, with `st` of it, or -1 with errno and, for "cannot be opened:", why not.
int ct_input_file_open(const char *path, struct stat *st, const char **why);
// The same as a stream; NULL with why not.
FILE *ct_input_file_open_stream(const char *path, const char **why);
// A stream that can be rewound, of a path that may be opened again: what a pipe gives ("-",
// <(command)) is kept in memory, which takes the place of its descriptor.
FILE *ct_input_file_open_seekable(const char *path, const char **why);

// ---- texts as files -----------------------------------------------------------------------------

// In memory, for functions that open what they read by its path.

enum { CT_MEMORY_FILE_PATH = 40 };

// Writes n bytes into a file in memory. Returns its descriptor; `path` is its path for as long as
// that is open. Ends the program where there is no memory (heap.h).
int ct_memory_file_make(const void *bytes, size_t n, char path[CT_MEMORY_FILE_PATH]);

#endif

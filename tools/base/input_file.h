// SPDX-License-Identifier: Apache-2.0
// Opens what a user has named to be read. The file may be a stranger's: a link to a device that
// never ends, or a pipe that nobody writes to. So only regular files are opened, and those pipes
// that the shell makes for the program (/dev/fd/N, /dev/stdin); no open waits.
#ifndef CT_INPUT_FILE_H
#define CT_INPUT_FILE_H

#include <stdio.h>
#include <sys/stat.h>

// A descriptor, with `st` of it, or -1 with errno and, for "cannot be opened:", why not.
int ct_input_file_open(const char *path, struct stat *st, const char **why);
// The same as a stream; NULL with why not.
FILE *ct_input_file_open_stream(const char *path, const char **why);

#endif

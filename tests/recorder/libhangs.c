// SPDX-License-Identifier: Apache-2.0
// A library to preload for which folders below HANGS_IN are on a file system that does not answer:
// a thread that opens one as a folder waits for ever. It makes the file HANGS_SAID first.
#include <stdlib.h>
#include <string.h>

#include "../lib/open_hook.h"

static int open_file(const char *path, int flags, mode_t mode) {
    const char *in = getenv("HANGS_IN"), *said = getenv("HANGS_SAID");
    if (in && said && (flags & O_DIRECTORY) && !strncmp(path, in, strlen(in))) {
        say(said);
        for (;;)
            pause();
    }
    return really_open(path, flags, mode);
}

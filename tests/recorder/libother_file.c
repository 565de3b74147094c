// SPDX-License-Identifier: Apache-2.0
// A library to preload for which the file OTHER_FILE_OF is another one, OTHER_FILE. Each time that
// it is opened, a byte is added to OTHER_FILE_ASKED.
#include <stdlib.h>
#include <string.h>

#include "../lib/open_hook.h"

static int open_file(const char *path, int flags, mode_t mode) {
    const char *of = getenv("OTHER_FILE_OF"), *other = getenv("OTHER_FILE"),
               *asked = getenv("OTHER_FILE_ASKED");
    if (!of || !other || !asked || strcmp(path, of) != 0)
        return really_open(path, flags, mode);
    const int fd = really_open(other, flags, mode),
              log = really_open(asked, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log >= 0 && write(log, "x", 1) != 1)
        abort();
    close(log);
    return fd;
}

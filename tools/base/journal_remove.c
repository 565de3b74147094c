// SPDX-License-Identifier: Apache-2.0
#include "base/journal_remove.h"

#include <cutrace/format/journal.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// Whether somebody has put another file there. -1 with errno: that cannot be told.
static int is_another(int folder, const char *name, int of) {
    struct stat named, journal;
    if (of < 0)
        return 0;
    if (fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) || fstat(of, &journal))
        return -1;
    return named.st_dev != journal.st_dev || named.st_ino != journal.st_ino;
}

static int remove_file(int folder, const char *name, int of) {
    const int another = is_another(folder, name, of);
    if (another)
        return another < 0 ? -1 : 0;
    return unlinkat(folder, name, 0);
}

int ct_journal_remove(int folder, const char *name, int of) {
    char target[4200];
    const ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    if (n < 0)
        return remove_file(folder, name, of);
    target[n] = 0;
    if (ct_journal_links_to_shm(target) && remove_file(AT_FDCWD, target, of) && errno != ENOENT)
        return -1;
    return unlinkat(folder, name, 0);
}

// SPDX-License-Identifier: Apache-2.0
// Finds a journal, compares its header with this version, and removes it.
#include "base/journal_file.h"

#include <cutrace/format/journal.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static int fail(int fd, int error) {
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

// A link is followed by hand: in a folder that everybody may write to (/tmp), the kernel does not
// follow other users' links. Somebody else's link would show one process as another one.
static int open_linked(int folder, const char *name, int access) {
    char target[4200];
    struct stat link, st;
    const ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    if (n < 0 || fstatat(folder, name, &link, AT_SYMLINK_NOFOLLOW))
        return -1;
    target[n] = 0;
    if (!ct_journal_links_to_shm(target))
        return fail(-1, ELOOP);
    const int fd = open(target, access | FLAGS);
    if (fd < 0 && errno == ENOENT)
        return fail(-1, ENOLINK);
    return fd >= 0 && (fstat(fd, &st) || st.st_uid != link.st_uid) ? fail(fd, ELOOP) : fd;
}

int ct_journal_open(int folder, const char *name, int access) {
    struct stat st;
    int fd = openat(folder, name, access | FLAGS);
    if (fd < 0 && errno == ELOOP)
        fd = open_linked(folder, name, access);
    return fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode)) ? fail(fd, EINVAL) : fd;
}

const char *ct_journal_open_error(int error) {
    if (error == ELOOP)
        return "is a link, which is not followed";
    if (error == ENOLINK)
        return "links to a file in memory that is not here: it lies on another machine or in "
               "another container, or a reboot has removed it";
    return error == EINVAL ? "is no regular file" : strerror(error);
}

const char *ct_journal_probe_mismatch(const struct ct_journal *j) {
    if (memcmp(j->magic, CT_JOURNAL_MAGIC, sizeof j->magic) != 0)
        return "is no journal, or its process ended while making it";
    if (j->version != CT_JOURNAL_VERSION || j->header_bytes < sizeof *j)
        return "is of another version";
    if (j->layout_hash != ct_journal_layout())
        return "has other events than this version";
    return NULL;
}

// ---- removing -----------------------------------------------------------------------------------

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

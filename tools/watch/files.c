// SPDX-License-Identifier: Apache-2.0
#include "watch/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal_file.h"

// No recorder makes more; a made-up header could keep a reader busy for hours.
enum { MOST_RINGS = 1 << 16, MOST_BLOCKS = 1 << 20 };
enum { FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static int say(char why[CT_WATCH_WHY], const char *reason) {
    (void)snprintf(why, CT_WATCH_WHY, "%s", reason);
    return -1;
}

// `is_journal`: a link that the recorder made is followed.
static int open_below(const char *folder, const char *name, int is_journal) {
    const int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -1;
    const int fd = is_journal ? ct_journal_open(at, name, O_RDONLY) : openat(at, name, FLAGS);
    const int error = errno;
    close(at);
    errno = error;
    return fd;
}

// Looks at what was opened. Returns 0, or -1: it is none of ours.
static int check(int fd, struct stat *st, char why[CT_WATCH_WHY]) {
    const uid_t self = geteuid();
    if (fstat(fd, st))
        return say(why, strerror(errno));
    if (!S_ISREG(st->st_mode))
        return say(why, "is no regular file");
    if (self && st->st_uid != self)
        return say(why, "belongs to another user");
    return 0;
}

static int say_mismatch(char why[CT_WATCH_WHY], const char *mismatch, unsigned version) {
    (void)snprintf(why, CT_WATCH_WHY,
                   "%s (version %u, this program reads %u): the cutrace that recorded it does",
                   mismatch, version, CT_JOURNAL_VERSION);
    return -1;
}

int ct_watch_journal_read(struct ct_watch_journal *j, char why[CT_WATCH_WHY]) {
    struct ct_journal head;
    const ssize_t n = pread(j->fd, &head, sizeof head, 0);
    if (n != (ssize_t)sizeof head)
        return say(why, "is too short for its header");
    const char *mismatch = ct_journal_probe_mismatch(&head);
    if (mismatch && memcmp(head.magic, CT_JOURNAL_MAGIC, sizeof head.magic) == 0)
        return say_mismatch(why, mismatch, head.version);
    if (mismatch)
        return say(why, mismatch);
    if (head.rings > MOST_RINGS || head.blocks > MOST_BLOCKS)
        return say(why, "has an impossible header");
    j->head = head;
    return 0;
}

int ct_watch_journal_open(struct ct_watch_journal *j, const char *folder, const char *name,
                          char why[CT_WATCH_WHY]) {
    char path[512];
    struct stat st;
    if (snprintf(path, sizeof path, "%s%s", name, CT_JOURNAL_SUFFIX) >= (int)sizeof path)
        return say(why, "has too long a name");
    j->fd = open_below(folder, path, 1);
    if (j->fd < 0)
        return say(why, ct_journal_open_error(errno));
    if (check(j->fd, &st, why) || ct_watch_journal_read(j, why)) {
        ct_watch_journal_close(j);
        return -1;
    }
    j->owner = st.st_uid;
    return 0;
}

int ct_watch_journal_is_gone(const struct ct_watch_journal *j) {
    struct stat st;
    return fstat(j->fd, &st) == 0 && !st.st_nlink;
}

void ct_watch_journal_close(struct ct_watch_journal *j) {
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

int ct_watch_trace_open(const char *folder, const char *name, uid_t owner, char why[CT_WATCH_WHY]) {
    struct stat st;
    const int fd = open_below(folder, name, 0);
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0) {
        (void)say(why, ct_journal_open_error(errno));
        return -2;
    }
    int bad = check(fd, &st, why);
    if (!bad && st.st_uid != owner)
        bad = say(why, "belongs to another user than its journal");
    if (!bad && (uint64_t)st.st_size > CT_WATCH_TRACE_MAX)
        bad = say(why, "has more than 4 GiB: cutrace-report reads it");
    if (!bad)
        return fd;
    close(fd);
    return -2;
}

// SPDX-License-Identifier: Apache-2.0
#include "watch/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal_probe.h"

// No recorder makes more; a made-up header could keep a reader busy for hours.
enum { MOST_RINGS = 1 << 16, MOST_BLOCKS = 1 << 20 };
enum { FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static int say(char why[CT_WATCH_WHY], const char *reason) {
    (void)snprintf(why, CT_WATCH_WHY, "%s", reason);
    return -1;
}

static int open_below(const char *folder, const char *name) {
    const int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -1;
    const int fd = openat(at, name, FLAGS), error = errno;
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

// The journal of CUTRACE_MEMORY is a link that the recorder made, to a file in memory.
static int open_linked(const char *folder, const char *name) {
    char target[4200];
    struct stat link, st;
    const int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const ssize_t n = at < 0 ? -1 : readlinkat(at, name, target, sizeof target - 1);
    const int has_owner = n > 0 && fstatat(at, name, &link, AT_SYMLINK_NOFOLLOW) == 0;
    if (at >= 0)
        close(at);
    target[n > 0 ? n : 0] = 0;
    const int fd = has_owner && ct_journal_links_to_shm(target) ? open(target, FLAGS) : -1;
    // Somebody else's link would show one process as another one.
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == link.st_uid)
        return fd;
    if (fd >= 0)
        close(fd);
    if (!has_owner || fd >= 0 || !ct_journal_links_to_shm(target))
        errno = ELOOP;
    return -1;
}

static int fail_open(char why[CT_WATCH_WHY]) {
    return say(why, errno == ELOOP ? "is a link, which is not followed" : strerror(errno));
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
    j->fd = open_below(folder, path);
    if (j->fd < 0 && errno == ELOOP) {
        j->fd = open_linked(folder, path);
        if (j->fd < 0 && errno == ENOENT)
            return say(why, "links to a file in memory that is not here: it lies in another "
                            "container, or a reboot has removed it");
    }
    if (j->fd < 0)
        return fail_open(why);
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
    const int fd = open_below(folder, name);
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0) {
        (void)fail_open(why);
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

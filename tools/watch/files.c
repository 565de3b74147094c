// SPDX-License-Identifier: Apache-2.0
#include "watch/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/journal_file.h"
#include "base/utf8.h"

// ---- folders ------------------------------------------------------------------------------------

enum { MOST_FILES = 1 << 16, PATH_SIZE = 4200 };
#define MOST_MAPS (UINT64_C(64) << 20) // bytes of /proc/PID/maps

const char *ct_watch_search_default(char *to, size_t size) {
    const char *pattern = getenv("CUTRACE_OUTPUT");
    if (!pattern || strlen(pattern) >= size)
        pattern = "";
    (void)snprintf(to, size, "%s", pattern);
    to[strcspn(to, "%")] = 0; // what is after it differs between processes
    char *slash = strrchr(to, '/');
    if (!slash)
        (void)snprintf(to, size, ".");
    else
        slash[slash == to] = 0;
    return to;
}

void ct_watch_search_folder(const char *folder, ct_watch_found *found, void *user) {
    DIR *d = opendir(folder);
    const struct dirent *one;
    for (int i = 0; d && i < MOST_FILES && (one = readdir(d)); i++) {
        char name[sizeof one->d_name];
        const size_t n = ct_journal_stem(one->d_name);
        (void)snprintf(name, sizeof name, "%.*s", (int)n, one->d_name);
        if (n)
            found(user, folder, name);
    }
    if (d)
        (void)closedir(d);
}

// ---- processes ----------------------------------------------------------------------------------

// The path is as the process sees it: this program may be in another container.
static void found_path(uint32_t pid, char *path, ct_watch_found *found, void *user) {
    char folder[PATH_SIZE + 64], trace[PATH_SIZE];
    struct stat here, there;
    char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "/proc/%u/root%s", pid, path);
    const int is_there = lstat(folder, &there) == 0,
              is_here = lstat(path, &here) == 0 && is_there && here.st_ino == there.st_ino &&
                        here.st_dev == there.st_dev;
    *slash = 0;
    (void)snprintf(trace, sizeof trace, "%.*s", (int)ct_journal_stem(slash + 1), slash + 1);
    if (!*trace)
        return;
    if (is_here)
        found(user, *path ? path : "/", trace);
    else if (is_there) {
        (void)snprintf(folder, sizeof folder, "/proc/%u/root%s", pid, path);
        found(user, folder, trace);
    }
}

// A line of /proc/PID/maps: range, rights, offset, device, inode, path.
static char *find_path(char *line) {
    char *path = strchr(line, '/');
    line[strcspn(line, "\n")] = 0;
    return path && strlen(path) < PATH_SIZE && ct_journal_stem(path) ? path : NULL;
}

void ct_watch_search_process(uint32_t pid, ct_watch_found *found, void *user) {
    char maps[64], last[PATH_SIZE] = "", *line = NULL, *path;
    size_t size = 0;
    uint64_t bytes = 0;
    ssize_t n;
    (void)snprintf(maps, sizeof maps, "/proc/%u/maps", pid);
    FILE *f = fopen(maps, "re");
    while (f && bytes < MOST_MAPS && (n = getline(&line, &size, f)) > 0) {
        bytes += (uint64_t)n;
        path = find_path(line);
        if (!path || strcmp(path, last) == 0)
            continue;
        (void)snprintf(last, sizeof last, "%s", path);
        found_path(pid, path, found, user);
    }
    free(line);
    if (f)
        (void)fclose(f);
}

void ct_watch_search_processes(ct_watch_found *found, void *user) {
    char path[64];
    struct stat st;
    DIR *all = opendir("/proc");
    for (const struct dirent *one; all && (one = readdir(all));) {
        const unsigned long pid = strtoul(one->d_name, NULL, 10);
        (void)snprintf(path, sizeof path, "/proc/%lu", pid);
        if (pid && pid <= UINT32_MAX && stat(path, &st) == 0 &&
            (geteuid() == 0 || st.st_uid == geteuid()))
            ct_watch_search_process((uint32_t)pid, found, user);
    }
    if (all)
        (void)closedir(all);
}

// ---- opening ------------------------------------------------------------------------------------

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

// ---- what could not be read ---------------------------------------------------------------------

void ct_watch_skips_clear(struct ct_watch_skips *s) {
    for (size_t i = 0; i < CT_WATCH_SKIPS; i++)
        free(s->text[i]);
    *s = (struct ct_watch_skips){.count = 0};
}

static int stat_journal(const char *folder, const char *name, struct stat *st) {
    char path[5000];
    return snprintf(path, sizeof path, "%s/%s%s", folder, name, CT_JOURNAL_SUFFIX) <
                   (int)sizeof path
               ? lstat(path, st)
               : -1;
}

int ct_watch_skips_has(const struct ct_watch_skips *s, const char *folder, const char *name) {
    struct stat st;
    if (stat_journal(folder, name, &st))
        return 0;
    for (size_t i = 0; i < s->count && i < CT_WATCH_SKIPS; i++)
        if (s->file[i].device == st.st_dev && s->file[i].inode == st.st_ino)
            return 1;
    return 0;
}

void ct_watch_skips_add(struct ct_watch_skips *s, const char *folder, const char *name,
                        const char *why) {
    char raw[700];
    struct stat st;
    const size_t i = s->count++;
    if (i >= CT_WATCH_SKIPS)
        return;
    (void)snprintf(raw, sizeof raw, "%.400s/%.100s%s: %s", folder, name, CT_JOURNAL_SUFFIX, why);
    s->text[i] = ct_heap_resize(NULL, sizeof raw, 1);
    ct_utf8_sanitize(s->text[i], sizeof raw, raw, strlen(raw));
    if (stat_journal(folder, name, &st) == 0) {
        s->file[i].device = st.st_dev;
        s->file[i].inode = st.st_ino;
    }
}

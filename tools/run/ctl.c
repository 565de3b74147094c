// SPDX-License-Identifier: Apache-2.0
// cutrace ctl: sends a request to a running recorder through its journal alone, without a signal or
// a socket. A request is a bit in the journal's header; the recorder's writer thread waits on a
// futex beside it.
#include "run/words.h"

#include <cutrace/format/journal.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/command_line.h"
#include "base/human.h"
#include "base/journal_file.h"
#include "base/now.h"

// Exit codes, as --help lists them.
enum { DONE = 0, USAGE = 2, NOT_THERE = 3, NO_ANSWER = 4, NOT_ALLOWED = 5 };

#define ANSWER_MS 10000u

struct target {
    char path[4200];
    struct ct_journal *journal; // its header, mapped
    uint32_t pid;               // as this program sees it
};

static int fail_with_errno(const char *path) {
    const int code = errno == EACCES || errno == EPERM ? NOT_ALLOWED : NOT_THERE;
    return ct_words_fail(code, "ctl: %s: %s", path, strerror(errno));
}

// ---- finding the journal ------------------------------------------------------------------------

// Parses a line of /proc/PID/maps. Returns the path if it may be a journal's, else NULL; `range`
// gets the addresses.
static char *parse_maps_line(char *line, char *range, size_t size) {
    static const char deleted[] = " (deleted)";
    line[strcspn(line, "\n")] = 0;
    char *path = strchr(line, '/');
    size_t n = path ? strlen(path) : 0;
    if (n > sizeof deleted && strcmp(path + n - sizeof deleted + 1, deleted) == 0)
        path[n -= sizeof deleted - 1] = 0;
    if (!path || !ct_journal_stem(path))
        return NULL;
    (void)snprintf(range, size, "%.*s", (int)strcspn(line, " "), line);
    return path;
}

static int has_journal_magic(const char *path) {
    char magic[8];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd < 0 ? -1 : pread(fd, magic, sizeof magic, 0);
    if (fd >= 0)
        close(fd);
    return n == sizeof magic && memcmp(magic, CT_JOURNAL_MAGIC, sizeof magic) == 0;
}

// A process in a container has other paths than this program: try the mapping itself, then the path
// below its root.
static int try_path(struct target *t, unsigned long pid, const char *range, const char *path) {
    const char *const forms[] = {"/proc/%lu/map_files/%s", "/proc/%lu/root%s"};
    const char *const names[] = {range, path};
    for (int i = 0; i < 2; i++) {
        char at[sizeof t->path];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        const int n = snprintf(at, sizeof at, forms[i], pid, names[i]);
#pragma GCC diagnostic pop
        if (n > 0 && (size_t)n < sizeof at && has_journal_magic(at)) {
            memcpy(t->path, at, sizeof at);
            return 1;
        }
    }
    return 0;
}

static int find_by_pid(struct target *t, unsigned long pid) {
    char maps[64], range[64], seen[sizeof t->path] = "";
    char *line = NULL, *path;
    size_t size = 0;
    (void)snprintf(maps, sizeof maps, "/proc/%lu/maps", pid);
    FILE *f = fopen(maps, "re");
    if (!f)
        return errno == ENOENT ? ct_words_fail(NOT_THERE, "ctl: no process %lu", pid)
                               : fail_with_errno(maps);
    int found = 0;
    while (!found && getline(&line, &size, f) > 0)
        if ((path = parse_maps_line(line, range, sizeof range))) {
            (void)snprintf(seen, sizeof seen, "%s", path);
            found = try_path(t, pid, range, path);
        }
    const int unreadable = ferror(f);
    free(line);
    (void)fclose(f);
    t->pid = found ? (uint32_t)pid : 0;
    if (found)
        return DONE;
    if (unreadable)
        return ct_words_fail(NOT_ALLOWED, "ctl: %s: cannot be read; is it another user's process?",
                             maps);
    if (*seen)
        return ct_words_fail(NOT_ALLOWED, "ctl: process %lu: cannot open its journal %s", pid,
                             seen);
    return ct_words_fail(
        NOT_THERE,
        "ctl: process %lu has no journal: it is not traced, has not used CUDA yet, or no file "
        "could be created for it",
        pid);
}

static int find_journal(struct target *t, const char *what) {
    struct stat st;
    if (*what && !what[strspn(what, "0123456789")])
        return find_by_pid(t, strtoul(what, NULL, 10));
    if (snprintf(t->path, sizeof t->path, "%s%s", what,
                 ct_journal_stem(what) ? "" : CT_JOURNAL_SUFFIX) >= (int)sizeof t->path)
        return ct_words_fail(USAGE, "ctl: the path is too long");
    if (lstat(t->path, &st) && access(what, F_OK) == 0)
        return ct_words_fail(NOT_THERE, "ctl: %s has no journal: its process has ended", what);
    return DONE;
}

static int map_header(struct target *t, int writable) {
    struct stat st;
    const int access = writable ? O_RDWR : O_RDONLY;
    // (of a process that was named, the path is the kernel's link to the journal itself)
    const int fd = t->pid ? open(t->path, access | O_CLOEXEC | O_NONBLOCK)
                          : ct_journal_open(AT_FDCWD, t->path, access);
    if (fd < 0 && (errno == ELOOP || errno == ENOLINK))
        return ct_words_fail(NOT_THERE, "ctl: %s %s; give the pid of its process", t->path,
                             ct_journal_open_error(errno));
    if (fd < 0)
        return fail_with_errno(t->path);
    void *p = MAP_FAILED;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)CT_JOURNAL_HEADER)
        p = mmap(NULL, CT_JOURNAL_HEADER, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
                 0);
    close(fd);
    if (p == MAP_FAILED)
        return ct_words_fail(NOT_THERE, "ctl: %s: not a journal", t->path);
    t->journal = p;
    const char *mismatch = ct_journal_probe_mismatch(t->journal);
    if (mismatch)
        return ct_words_fail(
            NOT_THERE,
            "ctl: %s: %s (version %u, this program reads version %u); use the cutrace that came "
            "with the recorder",
            t->path, mismatch, t->journal->version, CT_JOURNAL_VERSION);
    t->pid = t->pid ? t->pid : ct_process_alive_pid(t->journal);
    if (!t->pid)
        return ct_words_fail(
            NOT_THERE,
            "ctl: %s: process %u has ended; cutrace-report reads its trace, with the journal",
            t->path, t->journal->pid);
    return DONE;
}

// ---- requests -----------------------------------------------------------------------------------

static void wake_writer(struct ct_journal *j) {
    atomic_fetch_or(&j->wanted, CT_WAKE_NOW);
    (void)syscall(SYS_futex, &j->wanted, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int switch_on(struct target *t) {
    atomic_fetch_and(&t->journal->control, ~(uint32_t)CT_CONTROL_OFF);
    wake_writer(t->journal);
    return DONE;
}

static int switch_off(struct target *t) {
    atomic_fetch_or(&t->journal->control, CT_CONTROL_OFF);
    wake_writer(t->journal);
    return DONE;
}

static int flush(struct target *t) {
    const struct timespec pause = {0, 20000000};
    struct ct_journal *j = t->journal;
    const uint64_t before = atomic_load(&j->flushes);
    atomic_fetch_or(&j->control, CT_CONTROL_FLUSH);
    for (unsigned ms = 0; ms < ANSWER_MS; ms += 20) {
        wake_writer(j);
        nanosleep(&pause, NULL);
        if (atomic_load(&j->flushes) != before)
            return DONE;
        if (!ct_process_alive_start_time(t->pid))
            return ct_words_fail(NOT_THERE, "ctl: process %u has ended", t->pid);
    }
    return ct_words_fail(NO_ANSWER, "ctl: process %u has not answered within %u s", t->pid,
                         ANSWER_MS / 1000);
}

static void print_device(const struct ct_journal_device *d, int ordinal) {
    const uint64_t total = atomic_load(&d->total), sampled = atomic_load(&d->sampled_ns);
    if (!atomic_load(&d->tracked) && !atomic_load(&d->peak) && !atomic_load(&d->ooms) && !total)
        return;
    printf("GPU %-6d tracked %s, peak %s, OOM %" PRIu64, ordinal,
           ct_human_bytes(atomic_load(&d->tracked), CT_UNITS_IEC).text,
           ct_human_bytes(atomic_load(&d->peak), CT_UNITS_IEC).text, atomic_load(&d->ooms));
    if (total) {
        const uint64_t at = ct_now_ns(CLOCK_MONOTONIC);
        printf(", free %s of %s (%s ago)",
               ct_human_bytes(atomic_load(&d->free_bytes), CT_UNITS_IEC).text,
               ct_human_bytes(total, CT_UNITS_IEC).text,
               ct_human_seconds(at > sampled ? at - sampled : 0).text);
    } else {
        fputs(", free -", stdout);
    }
    putchar('\n');
}

static int print_status(struct target *t) {
    const struct ct_journal *j = t->journal;
    const uint32_t control = atomic_load(&j->control);
    printf("process    %u, recording is %s\n", t->pid, control & CT_CONTROL_OFF ? "off" : "on");
    printf("events     %" PRIu64 "\n", atomic_load(&j->events));
    printf("lost       %" PRIu64 "\n", atomic_load(&j->lost));
    printf("written    %s\n", ct_human_bytes(atomic_load(&j->bytes_written), CT_UNITS_IEC).text);
    if (atomic_load(&j->chunks_bytes))
        printf("in memory  %s of %s\n",
               ct_human_bytes(atomic_load(&j->chunks_head) - atomic_load(&j->chunks_tail),
                              CT_UNITS_IEC)
                   .text,
               ct_human_bytes(atomic_load(&j->chunks_bytes), CT_UNITS_IEC).text);
    for (int d = 0; d < CT_JOURNAL_DEVICES; d++)
        print_device(&j->device[d], d);
    return fflush(stdout) ? NOT_ALLOWED : DONE;
}

static const struct {
    const char *name;
    int (*send)(struct target *t);
    int writes;
} requests[] = {
    {"status", print_status, 0}, {"on", switch_on, 1}, {"off", switch_off, 1}, {"flush", flush, 1}};

int ct_ctl_main(int argc, char **argv) {
    struct target t = {.journal = NULL};
    if (argc && (strcmp(argv[0], "-h") == 0 || strcmp(argv[0], "--help") == 0))
        return ct_words_print_help(CT_RUN_ctl) ? NOT_ALLOWED : DONE;
    if (argc != 2)
        return ct_words_fail(USAGE, "ctl: usage: cutrace ctl PID|TRACE on|off|flush|status");
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (strcmp(argv[1], requests[i].name) != 0)
            continue;
        int code = find_journal(&t, argv[0]);
        if (!code)
            code = map_header(&t, requests[i].writes);
        return code ? code : requests[i].send(&t);
    }
    struct ct_nearest n = {.typed = argv[1], .length = strlen(argv[1])};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        ct_nearest_try(&n, requests[i].name);
    if (n.best)
        return ct_words_fail(USAGE, "ctl: %s: no such request; did you mean `%s`?", argv[1],
                             n.best);
    return ct_words_fail(USAGE, "ctl: %s: no such request; use on, off, flush or status", argv[1]);
}

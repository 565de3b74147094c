// SPDX-License-Identifier: Apache-2.0
// CUTRACE_KEEP: a program that crashes again and again does not fill the disk with its traces.
#define _GNU_SOURCE
#include "store/retention.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

#include "base/pages.h"
#include "base/print.h"
#include "base/process_id.h"
#include "store/file_pattern.h"

#define ENTRIES_MAX 10000u // of the folder; others are not looked at
#define NAME_BYTES 256u    // with the NUL
#define JOURNAL_BYTES (NAME_BYTES + sizeof CT_JOURNAL_SUFFIX)
#define TOKENS_MAX 256u

// ---- names ------------------------------------------------------------------------------------

enum { DIGITS = 256, ANYTHING }; // a token is one of these, or a character

struct shape {
    unsigned short token[TOKENS_MAX];
    size_t n;
};

static int put_token(struct shape *s, unsigned token) {
    if (s->n == TOKENS_MAX)
        return -1;
    s->token[s->n++] = (unsigned short)token;
    return 0;
}

// What ct_file_pattern_expand makes of the letters. 0: not a letter of its.
static unsigned token_of(char letter) {
    if (strchr("pPtn", letter))
        return DIGITS;
    return strchr("ehr", letter) ? ANYTHING : letter == '%' ? '%' : 0;
}

static int shape_of(const char *pattern, struct shape *s) {
    const char *slash = strrchr(pattern, '/');
    int full = 0;
    s->n = 0;
    for (const char *at = slash ? slash + 1 : pattern; *at && !full; at++) {
        const char *closed = !strncmp(at, "%q{", 3) ? strchr(at, '}') : NULL;
        const unsigned token = *at == '%' && at[1] ? token_of(at[1]) : 0;
        full = put_token(s, closed ? ANYTHING : token ? token : (unsigned char)*at);
        at = closed ? closed : at + (token != 0);
    }
    return full;
}

// Marks the places in the shape that can be reached from place i without a character.
static void reach(const struct shape *s, size_t i, uint8_t *places) {
    for (places[i] = 1; i < s->n && s->token[i] == ANYTHING; i++)
        places[i + 1] = 1;
}

// DIGITS takes one or more.
static void step(const struct shape *s, size_t i, unsigned char c, uint8_t *to) {
    const unsigned token = s->token[i];
    const int digit = c >= '0' && c <= '9';
    if (token == ANYTHING)
        reach(s, i, to);
    else if (token == c || (token == DIGITS && digit))
        reach(s, i + 1, to);
    if (token == DIGITS && digit)
        to[i] = 1;
}

static int matches(const struct shape *s, const char *name, size_t n) {
    static uint8_t places[2][TOKENS_MAX + 1];
    uint8_t *from = places[0], *to = places[1];
    int alive = 1;
    memset(from, 0, s->n + 1);
    reach(s, 0, from);
    for (size_t k = 0; k < n && alive; k++) {
        memset(to, 0, s->n + 1);
        for (size_t i = 0; i < s->n; i++)
            if (from[i])
                step(s, i, (unsigned char)name[k], to);
        alive = memchr(to, 1, s->n + 1) != NULL;
        uint8_t *swap = from;
        from = to;
        to = swap;
    }
    return alive && from[s->n];
}

// A name that was taken got .1, .2, ... behind it.
static int could_be_ours(const struct shape *s, int counts, const char *name) {
    size_t n = strlen(name);
    if (matches(s, name, n))
        return 1;
    const size_t whole = n;
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    return !counts && n < whole && n > 1 && name[n - 1] == '.' && matches(s, name, n - 1);
}

int ct_retention_matches(const char *pattern, const char *name) {
    struct shape s;
    return !shape_of(pattern, &s) && could_be_ours(&s, ct_file_pattern_has_counter(pattern), name);
}

// ---- what a file is ---------------------------------------------------------------------------

enum state { FOREIGN, BUSY, FINISHED };

static int open_ours(int folder, const char *name, struct stat *st) {
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && !fstat(fd, st) && S_ISREG(st->st_mode) && st->st_uid == geteuid())
        return fd;
    if (fd >= 0) {
        close(fd);
        errno = EPERM;
    }
    return -1;
}

static void journal_name(const char *name, char *out, size_t size) {
    ct_print(out, size, "%s%s", name, CT_JOURNAL_SUFFIX);
}

// Where the journal lies: an absolute path if not beside the trace.
static void journal_path(int folder, const char *name, char *out, size_t size) {
    char link[JOURNAL_BYTES];
    journal_name(name, link, sizeof link);
    const ssize_t n = readlinkat(folder, link, out, size - 1);
    out[n > 0 ? n : 0] = 0;
    if (!ct_journal_links_to_shm(out))
        ct_print(out, size, "%s", link);
}

// Of the journal: FOREIGN if there is none. One elsewhere may be gone since (with the machine's memory).
static enum state journal_state(int folder, const char *name) {
    static struct ct_journal j;
    char path[JOURNAL_BYTES];
    struct stat st;
    journal_path(folder, name, path, sizeof path);
    const int fd = open_ours(folder, path, &st);
    if (fd < 0 && errno == ENOENT)
        return *path == '/' ? FINISHED : FOREIGN;
    if (fd < 0)
        return errno == ENAMETOOLONG ? FOREIGN : BUSY;
    const ssize_t n = read(fd, &j, sizeof j);
    close(fd);
    // One that is being made, or that another version made, is none of our business.
    if (n < (ssize_t)sizeof j || memcmp(j.magic, CT_JOURNAL_MAGIC, sizeof j.magic) != 0 ||
        j.version != CT_JOURNAL_VERSION)
        return BUSY;
    return ct_process_id_is_alive(j.pid, j.process_start, j.boot_id) ? BUSY : FINISHED;
}

// A trace begins with a chunk, or with free space where one was. A process that was killed at once may have left a journal only.
static int is_trace(int fd, enum state journal) {
    char head[16];
    uint32_t magic;
    const ssize_t n = read(fd, head, sizeof head);
    if (n < (ssize_t)sizeof head)
        return n == 0 && journal == FINISHED;
    memcpy(&magic, head, sizeof magic);
    if (magic == CT_SKIPPABLE_MAGIC && journal == FINISHED)
        return 1;
    return (magic == CT_PREFIX_MAGIC || magic == CT_SKIPPABLE_MAGIC) &&
           memcmp(head + 8, CT_CHUNK_MAGIC, 8) == 0;
}

static enum state state_of(int folder, const char *name, int64_t *changed_ns) {
    struct stat st;
    const int fd = open_ours(folder, name, &st);
    if (fd < 0)
        return FOREIGN;
    const enum state journal = journal_state(folder, name);
    enum state state = !is_trace(fd, journal) ? FOREIGN : journal == BUSY ? BUSY : FINISHED;
    if (state == FINISHED && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        state = BUSY;
    close(fd);
    *changed_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    return state;
}

void ct_retention_lock(int fd) {
    (void)flock(fd, LOCK_EX | LOCK_NB);
}

// ---- the folder -------------------------------------------------------------------------------

struct trace {
    int64_t changed_ns;
    char name[NAME_BYTES];
};

struct folder {
    int fd;
    struct shape shape;
    int counts;
    struct trace *trace;
    size_t traces, entries;
};

// As the kernel has it; readdir(3) would use the host's heap.
struct entry {
    uint64_t inode, offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static void look_at(struct folder *f, const struct entry *e) {
    struct trace *t = &f->trace[f->traces];
    if ((e->type != DT_REG && e->type != DT_UNKNOWN) || strlen(e->name) >= NAME_BYTES ||
        !could_be_ours(&f->shape, f->counts, e->name))
        return;
    ct_print(t->name, sizeof t->name, "%s", e->name);
    f->traces += state_of(f->fd, t->name, &t->changed_ns) == FINISHED;
}

static void read_folder(struct folder *f) {
    static _Alignas(struct entry) char buffer[32 << 10];
    long n;
    while ((n = syscall(SYS_getdents64, f->fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n; at += ((const struct entry *)(buffer + at))->bytes) {
            if (f->entries++ == ENTRIES_MAX)
                return;
            look_at(f, (const struct entry *)(buffer + at));
        }
}

static void remove_oldest(struct folder *f) {
    char journal[JOURNAL_BYTES];
    struct trace *oldest = &f->trace[0];
    for (size_t i = 1; i < f->traces; i++)
        if (f->trace[i].changed_ns < oldest->changed_ns)
            oldest = &f->trace[i];
    // In this order: a journal alone would be nobody's.
    journal_path(f->fd, oldest->name, journal, sizeof journal);
    (void)unlinkat(f->fd, journal, 0);
    journal_name(oldest->name, journal, sizeof journal);
    (void)unlinkat(f->fd, journal, 0);
    (void)unlinkat(f->fd, oldest->name, 0);
    *oldest = f->trace[--f->traces];
}

static int open_folder(const char *file) {
    static char path[4096];
    const char *slash = strrchr(file, '/');
    ct_print(path, sizeof path, "%.*s", slash ? (int)(slash + 1 - file) : 1, slash ? file : ".");
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void ct_retention_remove_old(const char *pattern, const char *file, uint64_t keep) {
    static struct folder f;
    f = (struct folder){.fd = open_folder(file), .counts = ct_file_pattern_has_counter(pattern)};
    if (f.fd < 0)
        return;
    f.trace = ct_pages_map(ENTRIES_MAX * sizeof *f.trace);
    if (f.trace && !shape_of(pattern, &f.shape))
        read_folder(&f);
    while (f.traces > keep)
        remove_oldest(&f);
    if (f.trace)
        ct_pages_unmap(f.trace, ENTRIES_MAX * sizeof *f.trace);
    close(f.fd);
}

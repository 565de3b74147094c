// SPDX-License-Identifier: Apache-2.0
// The retention of old traces (CUTRACE_KEEP): finds the files that the pattern could have made,
// decides which of them are finished traces, and removes the oldest.
#define _GNU_SOURCE
#include "store/retention.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

#include "base/files.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/process_id.h"
#include "base/read_file.h"
#include "store/file_pattern.h"

#define ENTRIES_MAX 10000u // of the folder; later ones are ignored
#define NAME_BYTES 256u    // with the NUL
#define JOURNAL_BYTES (NAME_BYTES + sizeof CT_JOURNAL_SUFFIX)
#define TOKENS_MAX 256u

// ---- names ------------------------------------------------------------------------------------

// A token is a character, DIGITS (one or more), or ANYTHING (any text, also none).
enum { DIGITS = 256, ANYTHING };

struct glob {
    unsigned short token[TOKENS_MAX];
    size_t n;
};

static int put_token(struct glob *s, unsigned token) {
    if (s->n == TOKENS_MAX)
        return -1;
    s->token[s->n++] = (unsigned short)token;
    return 0;
}

// What ct_file_pattern_expand replaces a letter by; 0 if it leaves it alone.
static unsigned letter_to_token(char letter) {
    if (strchr("pPtn", letter))
        return DIGITS;
    if (strchr("ehr", letter))
        return ANYTHING;
    return letter == '%' ? '%' : 0;
}

// Returns -1 if the pattern has too many tokens.
static int parse_pattern(const char *pattern, struct glob *s) {
    const char *slash = strrchr(pattern, '/');
    int full = 0;
    s->n = 0;
    for (const char *at = slash ? slash + 1 : pattern; *at && !full; at++) {
        const char *closed = !strncmp(at, "%q{", 3) ? strchr(at, '}') : NULL;
        const unsigned token = *at == '%' && at[1] ? letter_to_token(at[1]) : 0;
        if (closed) {
            full = put_token(s, ANYTHING);
            at = closed;
        } else if (token) {
            full = put_token(s, token);
            at++;
        } else {
            full = put_token(s, (unsigned char)*at);
        }
    }
    return full;
}

// Marks the states of the matcher that follow from state i (i tokens are matched) without a
// character.
static void add_state(const struct glob *s, size_t i, uint8_t *states) {
    for (states[i] = 1; i < s->n && s->token[i] == ANYTHING; i++)
        states[i + 1] = 1;
}

// Marks the states that follow from state i by the character c.
static void step(const struct glob *s, size_t i, unsigned char c, uint8_t *to) {
    const unsigned token = s->token[i];
    const int digit = c >= '0' && c <= '9';
    if (token == ANYTHING)
        add_state(s, i, to);
    else if (token == c || (token == DIGITS && digit))
        add_state(s, i + 1, to);
    if (token == DIGITS && digit)
        to[i] = 1;
}

static int matches(const struct glob *s, const char *name, size_t n) {
    static uint8_t states[2][TOKENS_MAX + 1];
    uint8_t *from = states[0], *to = states[1];
    int alive = 1;
    memset(from, 0, s->n + 1);
    add_state(s, 0, from);
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

// Also matches a name that ends with .1, .2, ...: a trace whose name was taken has one.
static int could_be_trace(const struct glob *s, int has_counter, const char *name) {
    size_t n = strlen(name);
    if (matches(s, name, n))
        return 1;
    const size_t whole = n;
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    return !has_counter && n < whole && n > 1 && name[n - 1] == '.' && matches(s, name, n - 1);
}

int ct_retention_matches(const char *pattern, const char *name) {
    struct glob s;
    return !parse_pattern(pattern, &s) &&
           could_be_trace(&s, ct_file_pattern_has_counter(pattern), name);
}

// ---- states of a file -------------------------------------------------------------------------

enum state { FOREIGN, BUSY, FINISHED };

static int open_own_file(int folder, const char *name, struct stat *st) {
    const int fd = ct_openat(folder, name, O_RDONLY | O_NOFOLLOW);
    if (fd >= 0 && !ct_fstat(fd, st) && S_ISREG(st->st_mode) && st->st_uid == geteuid())
        return fd;
    if (fd >= 0) {
        ct_close(fd);
        errno = EPERM;
    }
    return -1;
}

static void journal_name(const char *name, char *out, size_t size) {
    ct_print(out, size, "%s%s", name, CT_JOURNAL_SUFFIX);
}

// The path of the journal: a name in the folder if it lies beside the trace, else an absolute path.
static void journal_path(int folder, const char *name, char *out, size_t size) {
    char link[JOURNAL_BYTES];
    journal_name(name, link, sizeof link);
    const ssize_t n = ct_readlinkat(folder, link, out, size - 1);
    out[n > 0 ? n : 0] = 0;
    if (!ct_journal_links_to_shm(out))
        ct_print(out, size, "%s", link);
}

// The state that the journal says. FOREIGN if there is none. A link to a missing file says
// FINISHED: a reboot empties /dev/shm.
static enum state journal_state(int folder, const char *name) {
    static struct ct_journal j;
    char path[JOURNAL_BYTES];
    struct stat st;
    journal_path(folder, name, path, sizeof path);
    const int fd = open_own_file(folder, path, &st);
    if (fd < 0 && errno == ENOENT)
        return *path == '/' ? FINISHED : FOREIGN;
    if (fd < 0)
        return errno == ENAMETOOLONG ? FOREIGN : BUSY;
    const ssize_t n = ct_read(fd, &j, sizeof j);
    ct_close(fd);
    // The journal is incomplete while it is created, and one of another version cannot be read.
    if (n < (ssize_t)sizeof j || memcmp(j.magic, CT_JOURNAL_MAGIC, sizeof j.magic) != 0 ||
        j.version != CT_JOURNAL_VERSION)
        return BUSY;
    return ct_process_id_is_alive(j.pid, j.process_start, j.boot_id) ? BUSY : FINISHED;
}

// A trace begins with a chunk, or with free space that replaced one. It is empty if its process was
// killed before the first chunk.
static int is_trace(int fd, enum state journal) {
    char head[16];
    uint32_t magic;
    const ssize_t n = ct_read(fd, head, sizeof head);
    if (n < (ssize_t)sizeof head)
        return n == 0 && journal == FINISHED;
    memcpy(&magic, head, sizeof magic);
    if (magic == CT_SKIPPABLE_MAGIC && journal == FINISHED)
        return 1;
    return (magic == CT_PREFIX_MAGIC || magic == CT_SKIPPABLE_MAGIC) &&
           memcmp(head + 8, CT_CHUNK_MAGIC, 8) == 0;
}

static enum state get_state(int folder, const char *name, int64_t *changed_ns) {
    struct stat st;
    const int fd = open_own_file(folder, name, &st);
    if (fd < 0)
        return FOREIGN;
    const enum state journal = journal_state(folder, name);
    enum state state = FINISHED;
    if (!is_trace(fd, journal))
        state = FOREIGN;
    else if (journal == BUSY)
        state = BUSY;
    else if (ct_flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
        state = BUSY;
    ct_close(fd);
    *changed_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    return state;
}

void ct_retention_lock(int fd) {
    (void)ct_flock(fd, LOCK_EX | LOCK_NB);
}

// ---- the folder -------------------------------------------------------------------------------

struct trace {
    int64_t changed_ns;
    char name[NAME_BYTES];
};

struct folder {
    int fd;
    struct glob glob;
    int has_counter;
    struct trace *trace;
    size_t traces, entries;
};

static int add_entry(void *user, const char *name, unsigned type) {
    struct folder *const f = user;
    struct trace *const t = &f->trace[f->traces];
    if (f->entries++ == ENTRIES_MAX)
        return 1;
    if ((type != DT_REG && type != DT_UNKNOWN) || strlen(name) >= NAME_BYTES ||
        !could_be_trace(&f->glob, f->has_counter, name))
        return 0;
    ct_print(t->name, sizeof t->name, "%s", name);
    f->traces += get_state(f->fd, t->name, &t->changed_ns) == FINISHED;
    return 0;
}

static void remove_oldest(struct folder *f) {
    char journal[JOURNAL_BYTES];
    struct trace *oldest = &f->trace[0];
    for (size_t i = 1; i < f->traces; i++)
        if (f->trace[i].changed_ns < oldest->changed_ns)
            oldest = &f->trace[i];
    // The trace goes last: a journal without a trace would never be removed.
    journal_path(f->fd, oldest->name, journal, sizeof journal);
    (void)ct_unlinkat(f->fd, journal);
    journal_name(oldest->name, journal, sizeof journal);
    (void)ct_unlinkat(f->fd, journal);
    (void)ct_unlinkat(f->fd, oldest->name);
    *oldest = f->trace[--f->traces];
}

static int open_folder(const char *file) {
    static char path[4096];
    const char *slash = strrchr(file, '/');
    ct_print(path, sizeof path, "%.*s", slash ? (int)(slash + 1 - file) : 1, slash ? file : ".");
    return ct_open(path, O_RDONLY | O_DIRECTORY);
}

void ct_retention_remove_old(const char *pattern, const char *file, uint64_t max_traces) {
    static struct folder f; // under the drain lock, as the room
    static struct ct_folder_room room;
    f = (struct folder){.fd = open_folder(file),
                        .has_counter = ct_file_pattern_has_counter(pattern)};
    if (f.fd < 0)
        return;
    f.trace = ct_pages_map(ENTRIES_MAX * sizeof *f.trace);
    if (f.trace && !parse_pattern(pattern, &f.glob))
        ct_read_folder(f.fd, &room, add_entry, &f);
    while (f.traces > max_traces)
        remove_oldest(&f);
    if (f.trace)
        ct_pages_unmap(f.trace, ENTRIES_MAX * sizeof *f.trace);
    ct_close(f.fd);
}

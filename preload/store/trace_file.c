// SPDX-License-Identifier: Apache-2.0
// The file of the trace: chooses its name, creates it, and finds it again after the host closed its
// descriptor. file_ring.c lays out the chunks in it.
#define _GNU_SOURCE
#include "store/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/options.h"
#include "base/print.h"
#include "store/file_pattern.h"
#include "store/file_ring.h"
#include "store/retention.h"

#define PATH_BYTES 4096
#define SUFFIXES 10000u
#define MIN_BOUND (UINT64_C(1) << 20)

// Buffers of this file are static, because the host's thread may have a small stack.
static int fd = -1;
static char path[PATH_BYTES];
static dev_t device;
static ino_t inode;
static int reported_errno;
static char error_text[256]; // for a NOTE

// ---- creating -------------------------------------------------------------------------------

static void make_parents(const char *file) {
    static char folder[PATH_BYTES];
    ct_print(folder, sizeof folder, "%s", file);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(folder, 0777); // an error shows when the file is opened
        *slash = '/';
    }
}

static int create(const char *file) {
    const int new_fd = ct_open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    return new_fd < 0 ? -errno : new_fd;
}

// Creates the first name that is free: counts up the pattern's %n, or else appends .1, .2, ...
static int create_free(const char *pattern, char *file) {
    const int has_counter = ct_file_pattern_has_counter(pattern);
    for (unsigned n = 0; n < SUFFIXES; n++) {
        const size_t length = ct_file_pattern_expand(pattern, n, file, PATH_BYTES - 8);
        if (!length)
            return -ENAMETOOLONG;
        if (!n && CT_OPTION_NUMBER(KEEP))
            ct_retention_remove_old(pattern, file, CT_OPTION_NUMBER(KEEP) - 1);
        if (!has_counter && n)
            ct_print(file + length, PATH_BYTES - length, ".%u", n);
        int rc = create(file);
        if (rc == -ENOENT) {
            make_parents(file);
            rc = create(file);
        }
        if (rc != -EEXIST)
            return rc;
    }
    return -EEXIST;
}

// The pattern that CUTRACE_OUTPUT means: a folder gets files of the default name. Returns 0, or
// -ENOTSUP for what can hold no trace (a terminal, a pipe): *pattern is the default name then.
static int choose_pattern(char *pattern, char *file) {
    const char *const given = CT_OPTION_TEXT(OUTPUT);
    const size_t n = ct_file_pattern_expand(given, 0, file, PATH_BYTES - 8);
    struct stat st;
    const int exists = n && !stat(file, &st);
    if ((exists && S_ISDIR(st.st_mode)) || (n && file[n - 1] == '/')) {
        ct_print(pattern, PATH_BYTES, "%s%s%s", given, file[n - 1] == '/' ? "" : "/",
                 ct_option_get_default(CT_OPTION_OUTPUT));
        return 0;
    }
    const int is_other = exists && !S_ISREG(st.st_mode);
    ct_print(pattern, PATH_BYTES, "%s", is_other ? ct_option_get_default(CT_OPTION_OUTPUT) : given);
    return is_other ? -ENOTSUP : 0;
}

static int create_elsewhere(const char *folder, const char *pattern, char *file) {
    static char other[PATH_BYTES];
    const char *slash = strrchr(pattern, '/');
    if (!folder || *folder != '/')
        return -ENOENT;
    ct_print(other, sizeof other, "%s/%s", folder, slash ? slash + 1 : pattern);
    return create_free(other, file);
}

static void set_path(const char *file) {
    static char folder[PATH_BYTES];
    if (*file != '/' && getcwd(folder, sizeof folder) && *folder == '/')
        ct_print(path, sizeof path, "%s/%s", folder, file);
    else
        ct_print(path, sizeof path, "%s", file);
}

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...) {
    static char line[PATH_BYTES + 256];
    va_list arguments;
    va_start(arguments, format);
    ct_print_va(line, sizeof line, format, arguments);
    va_end(arguments);
    ct_options_say(line);
}

// The host may have put a file of its own in the place of stderr, or a pipe that nobody reads: then
// it says nothing.
static void announce(void) {
    char file[64];
    struct stat st;
    struct pollfd pipe = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (!*CT_OPTION_TEXT(ANNOUNCE) || fstat(STDERR_FILENO, &st) || poll(&pipe, 1, 0) != 1 ||
        !(pipe.revents & POLLOUT))
        return;
    ct_print(file, sizeof file, "%lu:%lu", (unsigned long)st.st_dev, (unsigned long)st.st_ino);
    if (strcmp(file, CT_OPTION_TEXT(ANNOUNCE)) == 0)
        say("cutrace: writing %s\n", path);
}

// Tells the launcher which traces are of its run. It makes the file, and removes it at its end: a
// process that outlives it finds none, and must not make one. One write, so that processes which
// begin at once do not mix their paths.
static void append_to_list(void) {
    const char *list = CT_OPTION_TEXT(TRACE_LIST);
    struct stat st;
    const int to = *list ? ct_open(list, O_WRONLY | O_APPEND) : -1;
    if (to < 0)
        return;
    if (!ct_fstat(to, &st) && S_ISREG(st.st_mode)) {
        const ssize_t n = ct_write(to, path, strlen(path) + 1);
        (void)n; // the trace is there without it
    }
    ct_close(to);
}

static uint64_t get_bound(void) {
    const uint64_t asked = CT_OPTION_NUMBER(MAX_SIZE);
    return asked && asked < MIN_BOUND ? MIN_BOUND : asked;
}

int ct_trace_file_open(void) {
    static char file[PATH_BYTES], pattern[PATH_BYTES];
    struct stat st;
    int rc = choose_pattern(pattern, file);
    if (!rc)
        rc = create_free(pattern, file);
    if (rc < 0) {
        const int first = rc;
        if ((rc = create_elsewhere(getenv("TMPDIR"), pattern, file)) < 0)
            rc = create_elsewhere("/tmp", pattern, file);
        if (rc < 0) {
            say("cutrace: cannot write %s: %s; nothing is recorded\n", CT_OPTION_TEXT(OUTPUT),
                ct_print_strerror(-first));
            return first;
        }
        say("cutrace: cannot write %s: %s; writing %s\n", CT_OPTION_TEXT(OUTPUT),
            ct_print_strerror(-first), file);
    }
    fd = ct_files_keep(rc);
    if (ct_fstat(fd, &st)) {
        ct_close(fd);
        fd = -1;
        return -EIO;
    }
    if (CT_OPTION_NUMBER(KEEP))
        ct_retention_lock(fd);
    device = st.st_dev;
    inode = st.st_ino;
    reported_errno = 0;
    *error_text = 0;
    ct_file_ring_reset(get_bound());
    set_path(file);
    announce();
    append_to_list();
    return 0;
}

const char *ct_trace_file_get_path(void) {
    return path;
}

// ---- writing --------------------------------------------------------------------------------

static int is_the_trace(int some_fd, struct stat *st) {
    return !ct_fstat(some_fd, st) && st->st_dev == device && st->st_ino == inode;
}

// Makes sure that `fd` is the trace, and opens it again if not: the host may have closed our
// descriptor, and the number may now belong to a file of the host's. Returns 0 or -EBADF.
static int check_descriptor(struct stat *st) {
    if (fd >= 0 && is_the_trace(fd, st))
        return 0;
    fd = -1;
    const int again = *path ? ct_open(path, O_WRONLY | O_NOFOLLOW) : -1;
    if (again < 0)
        return -EBADF;
    if (!is_the_trace(again, st)) {
        ct_close(again);
        return -EBADF;
    }
    fd = ct_files_keep(again);
    if (CT_OPTION_NUMBER(KEEP))
        ct_retention_lock(fd);
    return 0;
}

static void report_error(int error, int recorded) {
    if (error == reported_errno)
        return;
    reported_errno = error;
    const char *consequence = recorded ? "the oldest events make room" : "events may be lost";
    say("cutrace: cannot write to %s: %s; %s\n", path, ct_print_strerror(error), consequence);
    ct_print(error_text, sizeof error_text, "the trace cannot grow beyond %lu bytes: %s; %s",
             ct_file_ring_get_size(), ct_print_strerror(error), consequence);
}

static void report_truncation(void) {
    say("cutrace: another program has truncated %s; what it held is lost\n", path);
    ct_print(error_text, sizeof error_text, "another program has truncated the trace to %lu bytes",
             ct_file_ring_get_size());
}

// Finds the file, and what other programs did to it. Returns 0 or -errno.
static int check_file(void) {
    struct stat st;
    int rc = check_descriptor(&st);
    if (!rc && (rc = ct_file_ring_adopt_size(fd, (uint64_t)st.st_size)) > 0)
        report_truncation();
    return rc < 0 ? rc : 0;
}

int ct_trace_file_append(const void *chunk, size_t n, uint64_t seq, unsigned flags) {
    int rc = check_file(), error = -rc;
    if (!rc) {
        rc = ct_file_ring_append(fd, chunk, n, seq, flags);
        error = ct_file_ring_get_growth_error() ? ct_file_ring_get_growth_error() : -rc;
    }
    if (error)
        report_error(error, rc == 0);
    return rc;
}

int ct_trace_file_put_provisional(const void *chunk, size_t n) {
    const int rc = check_file();
    return rc ? rc : ct_file_ring_put_provisional(fd, chunk, n);
}

void ct_trace_file_drop_provisional(void) {
    if (!check_file())
        (void)ct_file_ring_drop_provisional(fd);
}

int ct_trace_file_trim(void) {
    const int rc = check_file();
    return rc ? rc : ct_file_ring_trim(fd);
}

const char *ct_trace_file_take_error(void) {
    static char text[sizeof error_text];
    if (!*error_text)
        return NULL;
    memcpy(text, error_text, sizeof text);
    *error_text = 0;
    return text;
}

void ct_trace_file_reinit_child(void) {
    struct stat st;
    if (fd >= 0 && is_the_trace(fd, &st))
        ct_close(fd);
    fd = -1;
    *path = 0;
    ct_file_ring_reset(0);
}

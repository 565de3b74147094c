// SPDX-License-Identifier: Apache-2.0
// Writes into PATH.PID.part, which is renamed to PATH when it is complete. It has a name from the
// beginning, because SQLite opens files by their names; so a program that ends early removes it.
#include "read/new_file.h"

#include <cutrace/format/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- a program that ends early ------------------------------------------------------------------

static const char *volatile unfinished; // the part that exists or is about to; NULL: none

static void remove_unfinished(void) {
    if (unfinished)
        (void)unlink(unfinished);
    unfinished = NULL;
}

static void end_by_signal(int number) {
    remove_unfinished();
    signal(number, SIG_DFL);
    raise(number);
}

// Makes the program remove the part when it ends early: at exit, which a lack of memory leads to,
// too, and by a signal that has no handler.
static void remove_if_unfinished(const char *part) {
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    static int is_set_up;
    CT_ASSERT(!unfinished);
    unfinished = part;
    for (size_t i = 0; !is_set_up && i < sizeof ending / sizeof *ending; i++) {
        struct sigaction act;
        if (sigaction(ending[i], NULL, &act) || act.sa_handler != SIG_DFL)
            continue;
        act.sa_handler = end_by_signal;
        (void)sigaction(ending[i], &act, NULL);
    }
    if (!is_set_up)
        (void)atexit(remove_unfinished);
    is_set_up = 1;
}

// ---- the file -----------------------------------------------------------------------------------

static int fail_with_errno(struct ct_new_file *f) {
    ct_error_set(&f->error, CT_EXIT_OUTPUT, "%.400s: cannot be written: %s", f->path,
                 strerror(errno));
    ct_new_file_discard(f);
    return -1;
}

int ct_new_file_would_replace(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

int ct_new_file_open(struct ct_new_file *f, const char *path) {
    *f = (struct ct_new_file){.path = path, .fd = -1};
    if ((size_t)snprintf(f->part, sizeof f->part, "%s.%d.part", path, (int)getpid()) >=
        sizeof f->part)
        return ct_error_set(&f->error, CT_EXIT_OUTPUT, "%.400s: the path is too long", path);
    signal(SIGXFSZ, SIG_IGN); // handle a file size limit like a full disk
    const int is_stdout = strcmp(path, "-") == 0;
    f->in_place = is_stdout || (access(path, F_OK) == 0 && !ct_new_file_would_replace(path));
    if (!f->in_place)
        remove_if_unfinished(f->part); // (before it exists, so that no signal comes in between)
    f->fd = is_stdout     ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
            : f->in_place ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
                          : open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
    if (f->fd < 0)
        unfinished = NULL;
    return f->fd < 0 ? fail_with_errno(f) : 0;
}

int ct_new_file_write(struct ct_new_file *f, const void *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t got = write(f->fd, (const char *)bytes + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail_with_errno(f);
        done += (size_t)got;
    }
    f->bytes += n;
    return 0;
}

int ct_new_file_copy(struct ct_new_file *f, const struct ct_source *source, uint64_t from,
                     uint64_t to) {
    static uint8_t block[1 << 16];
    for (uint64_t at = from; at < to;) {
        const size_t n = to - at < sizeof block ? (size_t)(to - at) : sizeof block;
        if (ct_source_read(source, at, block, n) != n) {
            ct_error_set(&f->error, CT_EXIT_OUTPUT, "%.400s: cannot be read: %s", source->name,
                         strerror(errno));
            ct_new_file_discard(f);
            return -1;
        }
        if (ct_new_file_write(f, block, n))
            return -1;
        at += n;
    }
    return 0;
}

int ct_new_file_commit(struct ct_new_file *f) {
    CT_ASSERT(f->fd >= 0);
    if (!f->in_place && (fsync(f->fd) || rename(f->part, f->path)))
        return fail_with_errno(f);
    close(f->fd);
    f->fd = -1;
    unfinished = NULL;
    return 0;
}

void ct_new_file_discard(struct ct_new_file *f) {
    if (f->fd < 0)
        return;
    close(f->fd);
    f->fd = -1;
    if (!f->in_place)
        (void)unlink(f->part);
    unfinished = NULL;
}

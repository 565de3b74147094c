// SPDX-License-Identifier: Apache-2.0
#include "watch/folder.h"

#include <cutrace/format/format.h>
#include <cutrace/format/journal.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/journal_file.h"
#include "question/question.h"
#include "read/index.h"
#include "watch/files.h"

// ---- traces by their first bytes ----------------------------------------------------------------

enum ct_trace_magic ct_trace_magic_find(int fd) {
    char head[16];
    uint32_t magic;
    const ssize_t n = pread(fd, head, sizeof head, 0);
    if (n == 0)
        return CT_TRACE_MAGIC_EMPTY;
    if (n < (ssize_t)sizeof head)
        return CT_TRACE_MAGIC_NONE;
    memcpy(&magic, head, sizeof magic);
    if (magic != CT_PREFIX_MAGIC && magic != CT_SKIPPABLE_MAGIC)
        return CT_TRACE_MAGIC_NONE;
    if (memcmp(head + 8, CT_CHUNK_MAGIC, 8) == 0)
        return CT_TRACE_MAGIC_CHUNK;
    return magic == CT_SKIPPABLE_MAGIC ? CT_TRACE_MAGIC_FREE : CT_TRACE_MAGIC_NONE;
}

// ---- files --------------------------------------------------------------------------------------

enum { MOST_FILES = 1 << 16, MOST_REMEMBERED = 1 << 16 };

int ct_folder_open_own(int folder, const char *name, struct stat *st) {
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, st) && S_ISREG(st->st_mode) && st->st_uid == geteuid())
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int ct_folder_has(int folder, const char *name, const char *suffix) {
    char path[512];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s%s", name, suffix);
    return fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int ct_folder_is_unused(int folder, const char *name) {
    struct stat st;
    const int fd = ct_folder_open_own(folder, name, &st);
    const int unused = fd >= 0 && ct_file_use_find(fd) == CT_FILE_UNUSED;
    if (fd >= 0)
        close(fd);
    return unused;
}

uint64_t ct_folder_hash(const struct ct_folder_file *f) {
    const uint64_t key[] = {f->device, f->inode, f->bytes, (uint64_t)f->changed_ns};
    return ct_hash_bytes(key, sizeof key);
}

// ---- kinds --------------------------------------------------------------------------------------

static int begins_with(int fd, const char *magic, size_t n) {
    char head[8];
    return pread(fd, head, n, 0) == (ssize_t)n && memcmp(head, magic, n) == 0;
}

static int ends_with(const char *name, const char *suffix) {
    const size_t n = strlen(name), s = strlen(suffix);
    return n > s && strcmp(name + n - s, suffix) == 0;
}

// The end of a bundle that is being written: the suffix, digits, ".part".
static int is_part_of_bundle(const char *name) {
    const char *at = strstr(name, CT_FOLDER_BUNDLE_SUFFIX ".");
    if (!at || at == name)
        return 0;
    at += sizeof CT_FOLDER_BUNDLE_SUFFIX;
    const size_t digits = strspn(at, "0123456789");
    return digits && strcmp(at + digits, ".part") == 0;
}

static enum ct_folder_kind find_kind(int folder, const char *name, int fd) {
    if (ct_journal_stem(name))
        return begins_with(fd, CT_JOURNAL_MAGIC, 8) ? CT_FOLDER_JOURNAL : CT_FOLDER_NONE;
    if (is_part_of_bundle(name) ||
        (ends_with(name, CT_FOLDER_BUNDLE_SUFFIX) && begins_with(fd, "PK\3\4", 4)))
        return CT_FOLDER_BUNDLE;
    const enum ct_trace_magic magic = ct_trace_magic_find(fd);
    if (magic == CT_TRACE_MAGIC_CHUNK)
        return CT_FOLDER_TRACE;
    // A trace that has nothing yet, or nothing any more, is one by its journal.
    return magic != CT_TRACE_MAGIC_NONE && ct_folder_has(folder, name, CT_JOURNAL_SUFFIX)
               ? CT_FOLDER_TRACE
               : CT_FOLDER_NONE;
}

// ---- the list -----------------------------------------------------------------------------------

static void add(struct ct_folder *f, const char *name) {
    struct stat st;
    const int fd = ct_folder_open_own(f->fd, name, &st);
    const enum ct_folder_kind kind = fd < 0 ? CT_FOLDER_NONE : find_kind(f->fd, name, fd);
    if (fd >= 0)
        close(fd);
    if (kind == CT_FOLDER_NONE)
        return;
    CT_HEAP_GROW(f->files, f->count, f->room);
    f->files[f->count++] = (struct ct_folder_file){
        .kind = kind,
        .name = ct_heap_copy_text(name),
        .bytes = (uint64_t)st.st_blocks * 512,
        .changed_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
        .device = st.st_dev,
        .inode = st.st_ino};
    f->bytes += f->files[f->count - 1].bytes;
}

static int compare_age(const void *a, const void *b) {
    const struct ct_folder_file *x = a, *y = b;
    if (x->changed_ns != y->changed_ns)
        return x->changed_ns < y->changed_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

int ct_folder_read(struct ct_folder *f, const char *path) {
    const struct dirent *one;
    *f = (struct ct_folder){.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    DIR *d = f->fd < 0 ? NULL : fdopendir(dup(f->fd));
    for (int i = 0; d && i < MOST_FILES && (one = readdir(d)); i++)
        if (one->d_type == DT_REG || one->d_type == DT_UNKNOWN)
            add(f, one->d_name);
    if (f->count)
        qsort(f->files, f->count, sizeof *f->files, compare_age);
    if (d)
        (void)closedir(d);
    return d ? 0 : -1;
}

void ct_folder_free(struct ct_folder *f) {
    for (size_t i = 0; i < f->count; i++)
        free(f->files[i].name);
    free(f->files);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct ct_folder){.fd = -1};
}

// ---- finished traces ----------------------------------------------------------------------------

// By the journal, which is there: whether its process left it.
static int has_left_journal(const char *folder, const char *name) {
    struct ct_watch_journal j;
    char why[CT_WATCH_WHY];
    if (ct_watch_journal_open(&j, folder, name, why))
        return 0;
    const int left = j.owner == geteuid() && ct_file_use_find(j.fd) == CT_FILE_UNUSED &&
                     !ct_process_alive_pid(&j.head);
    ct_watch_journal_close(&j);
    return left;
}

// The flags of the last chunk; 0: there is none.
static unsigned read_last_flags(int fd, uint64_t bytes, const char *name) {
    const struct ct_source source = {.name = name, .fd = fd, .bytes = bytes, .file_bytes = bytes};
    struct ct_index x = {0};
    struct ct_error error;
    ct_index_scan(&x, &source, 0, bytes);
    const unsigned flags =
        ct_index_sort(&x, &source, &error) ? 0 : x.chunks[x.count - 1].head.flags;
    ct_index_free(&x);
    return flags;
}

// A recorder that could have no journal, and whose host has closed its descriptor, leaves no other
// sign that it lives.
static int has_end(int fd, uint64_t bytes, const char *name) {
    return (read_last_flags(fd, bytes, name) & (CT_CHUNK_LAST | CT_CHUNK_SEALED)) != 0;
}

int ct_finished_was_sealed(const char *folder, const char *name, uid_t owner) {
    char why[CT_WATCH_WHY];
    struct stat st;
    const int fd = ct_watch_trace_open(folder, name, owner, why);
    if (fd < 0)
        return 0;
    const int was =
        !fstat(fd, &st) && read_last_flags(fd, (uint64_t)st.st_size, name) & CT_CHUNK_SEALED;
    close(fd);
    return was;
}

int ct_finished_is(int folder, const char *path, const char *name) {
    struct stat st;
    const int fd = ct_folder_open_own(folder, name, &st);
    if (fd < 0)
        return 0;
    const int is_over = ct_folder_has(folder, name, CT_JOURNAL_SUFFIX)
                            ? has_left_journal(path, name)
                            : has_end(fd, (uint64_t)st.st_size, name);
    // The last question: a recorder whose host has closed its descriptor never has to wait for it.
    const int is = is_over && ct_file_use_find(fd) == CT_FILE_UNUSED;
    close(fd);
    return is;
}

// ---- failures -----------------------------------------------------------------------------------

// Whether the digests say that no request failed; 0: one did, or a chunk has no digest.
static int is_free_of_failures(const struct ct_trace *t) {
    struct ct_digest *digest = ct_heap_resize(NULL, 1, sizeof *digest);
    struct ct_digest_body body;
    const char *what;
    int is_free = 1;
    for (size_t i = 0; i < t->index.count && is_free; i++)
        is_free = ct_digest_read(&t->source, &t->index.chunks[i], digest, &body, &what) > 0 &&
                  !digest->failed;
    free(digest);
    return is_free;
}

enum ct_failures ct_failures_read(int folder, const char *path, const char *name) {
    const struct ct_scan_request request = {.to_ns = UINT64_MAX, .device = -1};
    struct ct_watch_journal j = {.fd = -1};
    char why[CT_WATCH_WHY];
    struct stat st;
    struct ct_trace t;
    struct ct_error error;
    enum ct_failures found = CT_FAILURES_NONE;
    const int fd = ct_folder_open_own(folder, name, &st);
    if (fd < 0)
        return found;
    if (ct_folder_has(folder, name, CT_JOURNAL_SUFFIX) &&
        ct_watch_journal_open(&j, path, name, why)) {
        close(fd);
        return found;
    }
    const struct ct_trace_files files = {name, fd, j.fd};
    if (!ct_trace_open_files(&t, &files, &error) && (j.fd >= 0 || !is_free_of_failures(&t))) {
        struct ct_scan *s = ct_heap_alloc_zeroed(1, sizeof *s);
        ct_question_scan(s, &t, &request, NULL);
        const struct ct_incident_counts n = ct_incidents_count(&s->incidents);
        if (s->failures)
            found = n.failed > n.recovered_later ? CT_FAILURES_LASTING : CT_FAILURES_HEALED;
        ct_scan_free(s);
        free(s);
    }
    ct_trace_close(&t); // (and both files)
    return found;
}

enum ct_failures ct_failures_find(struct ct_map *known, const struct ct_folder *folder,
                                  const char *path, const struct ct_folder_file *f) {
    if (known->count >= MOST_REMEMBERED)
        ct_map_free(known);
    uint64_t *failures = ct_map_add(known, ct_folder_hash(f));
    if (!*failures)
        *failures = ct_failures_read(folder->fd, path, f->name);
    const uint64_t found = *failures;
    return (enum ct_failures)found;
}

// SPDX-License-Identifier: Apache-2.0
#include "watch/finished.h"

#include <cutrace/model/failures.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/writers.h"
#include "read/digest.h"
#include "read/trace.h"
#include "watch/files.h"

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
    const int is_over = ct_folder_has_journal(folder, name)
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

int ct_finished_has_oom(int fd, const char *name) {
    const struct ct_trace_files files = {name, dup(fd), -1};
    struct ct_trace t;
    struct ct_error error;
    struct ct_event e;
    uint64_t number;
    int has = 0;
    if (!ct_trace_open_files(&t, &files, &error) && !is_free_of_failures(&t))
        while (!has && ct_trace_next(&t, &e, &number))
            has = ct_event_reports_oom(&e);
    ct_trace_close(&t);
    return has;
}

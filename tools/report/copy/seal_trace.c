// SPDX-License-Identifier: Apache-2.0
#include "copy/seal_trace.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"

int ct_seal_trace_lock(int fd) {
    // (a file system without locks has one sealer, for all that is known)
    return flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK ? -1 : 0;
}

static int write_all(int fd, const void *bytes, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        const ssize_t got = pwrite(fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

// Whether a chunk ends at `at`: the file was cut before its filler, or within it.
static int lacks_filler(const struct ct_index *x, uint64_t at) {
    for (size_t i = 0; i < x->count; i++)
        if (ct_index_end_of(&x->chunks[i]) == at)
            return 1;
    return at % CT_CHUNK_ALIGN != 0;
}

// Appends the new chunks, from a multiple of 8 on; filler leads up to it.
static int append_chunks(const struct ct_trace *t, uint64_t at, int fd) {
    const struct ct_source *s = &t->source;
    const uint32_t fill[4] = {CT_FILLER_MAGIC, (uint32_t)(0 - at) & (CT_CHUNK_ALIGN - 1), 0, 0};
    const uint64_t from = lacks_filler(&t->index, at) ? at + 8 + fill[1] : at;
    if (from != at && write_all(fd, fill, 8 + fill[1], at))
        return -1;
    return write_all(fd, s->added, (size_t)(s->bytes - s->added_at), from);
}

static int fail_with_errno(struct ct_error *error, const char *name, const char *what) {
    return ct_error_set(error, CT_EXIT_OUTPUT, "%s: %s: %s", name, what, strerror(errno));
}

// Replaces a chunk that was being written when the process was killed; restores it if that fails.
int ct_seal_trace_append(const struct ct_trace *t, int fd, struct ct_error *error) {
    const struct ct_source *s = &t->source;
    const uint64_t at = ct_trace_append_offset(t), end = s->file_bytes;
    const size_t n = (size_t)(end - at);
    struct stat st;
    if (fstat(fd, &st) || (uint64_t)st.st_size != end)
        return ct_error_set(error, CT_EXIT_OUTPUT, "%s: has changed in the meantime; try again",
                            s->name);
    uint8_t *rest = ct_heap_resize(NULL, n, 1);
    const int kept = ct_source_read(s, at, rest, n) == n;
    int rc = kept ? 0 : fail_with_errno(error, s->name, "cannot be read");
    if (!rc && ((n && ftruncate(fd, (off_t)at)) || append_chunks(t, at, fd) || fsync(fd)))
        rc = fail_with_errno(error, s->name, "cannot be written; trace and journal are unchanged");
    if (rc && kept && (ftruncate(fd, (off_t)at) || write_all(fd, rest, n, at)))
        rc = fail_with_errno(error, s->name, "cannot be restored; its journal has everything");
    free(rest);
    return rc;
}

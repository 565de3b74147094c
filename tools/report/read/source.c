// SPDX-License-Identifier: Apache-2.0
// Reads files with pread and never maps them: if a trace shrinks or its disk fails while it is
// read, a mapping would end the program with SIGBUS.
#include "read/source.h"

#include <cutrace/format/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/input_file.h"

// Pipes cannot be read at an offset: keep all of their bytes.
static int read_all(struct ct_source *s, int fd, struct ct_error *error) {
    size_t capacity = 1 << 20;
    s->memory = ct_heap_resize(NULL, capacity, 1);
    for (;;) {
        if (s->bytes == capacity)
            s->memory = ct_heap_resize(s->memory, capacity *= 2, 1);
        const ssize_t n = read(fd, s->memory + s->bytes, capacity - s->bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: cannot be read: %s", s->name,
                                strerror(errno));
        if (n == 0)
            return 0;
        s->file_bytes = s->bytes += (uint64_t)n;
    }
}

// Bytes that have a name. There are few.
static struct named {
    const char *name;
    int fd;
    uint64_t begin, bytes;
} * named;
static size_t named_count, named_capacity;

void ct_source_add_name(const char *name, int fd, uint64_t begin, uint64_t bytes) {
    CT_HEAP_GROW(named, named_count, named_capacity);
    named[named_count++] = (struct named){name, fd, begin, bytes};
}

static const struct named *find_named(const char *path) {
    for (size_t i = named_count; i-- > 0;)
        if (strcmp(named[i].name, path) == 0)
            return &named[i];
    return NULL;
}

int ct_source_is_named(const char *path) {
    return find_named(path) != NULL;
}

int ct_source_open(struct ct_source *s, const char *path, struct ct_error *error) {
    struct stat st = {0};
    const char *why;
    const struct named *known = find_named(path);
    *s = (struct ct_source){.name = path, .fd = -1};
    if (known) {
        s->fd = fcntl(known->fd, F_DUPFD_CLOEXEC, 3);
        s->begin = known->begin;
        s->file_bytes = s->bytes = known->bytes;
        return s->fd < 0 ? ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: cannot be opened: %s", path,
                                        strerror(errno))
                         : 0;
    }
    const int standard = strcmp(path, "-") == 0;
    const int fd = standard ? STDIN_FILENO : ct_input_file_open(path, &st, &why);
    if (fd < 0)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: cannot be opened: %s", path, why);
    if ((!standard || !fstat(fd, &st)) && S_ISREG(st.st_mode)) {
        s->fd = fd;
        s->file_bytes = s->bytes = (uint64_t)st.st_size;
        return 0;
    }
    const int result = read_all(s, fd, error);
    if (!standard)
        close(fd);
    return result;
}

void ct_source_open_memory(struct ct_source *s, const char *name, const void *bytes, size_t size) {
    *s = (struct ct_source){.name = name, .fd = -1, .bytes = size, .file_bytes = size};
    s->memory = ct_heap_resize(NULL, size, 1);
    if (size)
        memcpy(s->memory, bytes, size);
}

void ct_source_expect_seeks(struct ct_source *s) {
    if (s->fd >= 0 && !ct_source_is_named(s->name)) // (named bytes share their file with others)
        (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM);
}

void ct_source_append(struct ct_source *s, void *bytes, size_t size, unsigned align) {
    free(s->added);
    s->added = bytes;
    CT_ASSERT(align);
    s->added_at = (s->file_bytes + align - 1) / align * align;
    s->bytes = s->added_at + size;
}

size_t ct_source_read(const struct ct_source *s, uint64_t offset, void *to, size_t n) {
    const int is_added = s->added && offset >= s->added_at;
    const uint64_t end = is_added ? s->bytes : s->file_bytes;
    if (offset >= end)
        return 0;
    if (n > end - offset)
        n = (size_t)(end - offset);
    if (is_added) {
        memcpy(to, s->added + (offset - s->added_at), n);
        return n;
    }
    if (s->fd < 0) {
        memcpy(to, s->memory + offset, n);
        return n;
    }
    size_t done = 0;
    while (done < n) {
        const ssize_t got =
            pread(s->fd, (char *)to + done, n - done, (off_t)(s->begin + offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

void ct_source_close(struct ct_source *s) {
    if (s->fd > STDIN_FILENO)
        close(s->fd);
    free(s->memory);
    free(s->added);
    *s = (struct ct_source){.fd = -1};
}

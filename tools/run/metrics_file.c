// SPDX-License-Identifier: Apache-2.0
#include "run/metrics_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char head[] = "# cutrace record-metrics: KV cache and requests of a server\n";
static const char mark[] = "# scraped ";

static int write_all(int fd, const char *bytes, size_t n) {
    while (n) {
        const ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

static int read_all(int fd, char *to, size_t n, uint64_t offset) {
    while (n) {
        const ssize_t got = pread(fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        to += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

// Appends bytes, or leaves the file as it was.
static int append(struct ct_metrics_file *f, const char *bytes, size_t n) {
    if (write_all(f->fd, bytes, n)) {
        const int error = errno;
        (void)!ftruncate(f->fd, (off_t)f->bytes);
        errno = error;
        return -1;
    }
    f->bytes += n;
    return 0;
}

static int is_own(int fd) {
    char begin[sizeof head - 1];
    return read_all(fd, begin, sizeof begin, 0) == 0 && memcmp(begin, head, sizeof begin) == 0;
}

int ct_metrics_file_open(struct ct_metrics_file *f, const char *path, uint64_t most_bytes) {
    struct stat st;
    *f = (struct ct_metrics_file){.path = path, .most_bytes = most_bytes};
    f->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (f->fd < 0)
        return -1;
    const int is_file = fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode);
    if (!is_file || (st.st_size && !is_own(f->fd))) {
        close(f->fd);
        errno = EEXIST;
        return -1;
    }
    f->bytes = (uint64_t)st.st_size;
    return f->bytes ? 0 : append(f, head, sizeof head - 1);
}

// Where the first scrape of the newer half begins in `bytes`; n: there is none.
static size_t find_newer_half(const char *bytes, size_t n) {
    const char *from = bytes + n / 2, *found;
    while ((found = memmem(from, (size_t)(bytes + n - from), mark, sizeof mark - 1))) {
        if (found == bytes || found[-1] == '\n')
            return (size_t)(found - bytes);
        from = found + 1;
    }
    return n;
}

// Puts a file with the newer half in the place of this one.
static int drop_older_half(struct ct_metrics_file *f) {
    char *temporary = NULL, *bytes = malloc(f->bytes ? f->bytes : 1);
    int fd = -1, result = -1;
    if (bytes && asprintf(&temporary, "%s.new", f->path) >= 0 &&
        read_all(f->fd, bytes, f->bytes, 0) == 0) {
        const size_t from = find_newer_half(bytes, f->bytes);
        struct ct_metrics_file half = {.path = f->path, .most_bytes = f->most_bytes};
        fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
        half.fd = fd;
        if (fd >= 0 && !append(&half, head, sizeof head - 1) &&
            !append(&half, bytes + from, f->bytes - from) && !rename(temporary, f->path)) {
            close(f->fd);
            *f = half;
            result = 0;
        }
    }
    if (result) {
        const int error = errno;
        if (fd >= 0) {
            close(fd);
            (void)unlink(temporary);
        }
        errno = error;
    }
    free(temporary);
    free(bytes);
    return result;
}

int ct_metrics_file_add(struct ct_metrics_file *f, uint64_t utc_ns, const char *lines, size_t n) {
    char *scrape;
    const int length = asprintf(&scrape, "%s%" PRIu64 ".%09" PRIu64 "\n%.*s", mark,
                                utc_ns / 1000000000, utc_ns % 1000000000, (int)n, lines);
    if (length < 0)
        return -1;
    int result = 0;
    if (f->bytes + (uint64_t)length > f->most_bytes && f->bytes > sizeof head)
        result = drop_older_half(f);
    if (!result)
        result = append(f, scrape, (size_t)length);
    const int error = errno;
    free(scrape);
    errno = error;
    return result;
}

int ct_metrics_file_close(struct ct_metrics_file *f) {
    const int failed = fsync(f->fd) && errno != EINVAL;
    return close(f->fd) || failed ? -1 : 0;
}

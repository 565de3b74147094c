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

#include "base/openmetrics.h"

// ---- what is kept -------------------------------------------------------------------------------

static const char *const names[] = {
#define CT_METRIC(FIELD, name) name,
#include "base/metrics.def"
};

// The labels that are kept: numbers that tell the engines of one server apart, and the size of the
// KV cache.
static const struct {
    const char *of, *label; // of: NULL: of any metric
} labels[] = {
    {NULL, "engine"},
#define CT_METRIC_LABEL(FIELD, name, label) {name, label},
#include "base/metrics.def"
};

enum { VALUE_LETTERS = 40, LABELS_LETTERS = 160, MOST_SAMPLE = 300, MOST_LINE = 4096 };

static int is_name(const char *name, const char *line, size_t n) {
    return strlen(name) == n && memcmp(line, name, n) == 0;
}

static int is_kept(const char *line, size_t n) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_name(names[i], line, n))
            return 1;
    for (size_t i = 1; i < sizeof labels / sizeof *labels; i++)
        if (is_name(labels[i].of, line, n))
            return 1;
    return 0;
}

// Copies the labels that are kept: {engine="0"}; "" if there is none.
static void copy_labels(const char *line, size_t name, char to[LABELS_LETTERS]) {
    char number[CT_METRIC_LABEL_DIGITS + 1];
    size_t n = 0;
    *to = 0;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (labels[i].of && !is_name(labels[i].of, line, name))
            continue;
        ct_metric_label_copy(line + name + 1, labels[i].label, number);
        if (!*number)
            continue;
        const int more = snprintf(to + n, LABELS_LETTERS - n, "%s%s=\"%s\"", n ? "," : "{",
                                  labels[i].label, number);
        n += more > 0 && (size_t)more < LABELS_LETTERS - n - 1 ? (size_t)more : 0;
    }
    to[n] = n ? '}' : 0;
    to[n + (n != 0)] = 0;
}

// The text of a value, if it is a number.
static int copy_value(const char *from, char *to) {
    char *end;
    const size_t blanks = strspn(from, " \t"), n = strspn(from + blanks, "+-.0123456789eE");
    if (!n || n >= VALUE_LETTERS)
        return 0;
    (void)snprintf(to, VALUE_LETTERS, "%.*s", (int)n, from + blanks);
    (void)strtod(to, &end);
    return !*end;
}

// Copies what is kept of a line; 0: nothing is.
static size_t filter_line(const char *line, char to[MOST_SAMPLE]) {
    char kept_labels[LABELS_LETTERS] = "", value[VALUE_LETTERS];
    const char *at = line + strcspn(line, "{ ");
    const size_t name = (size_t)(at - line);
    if (!is_kept(line, name))
        return 0;
    if (*at == '{') {
        copy_labels(line, name, kept_labels);
        at = strrchr(at, '}');
        if (!at++)
            return 0;
    }
    if (!copy_value(at, value))
        return 0;
    const int n = snprintf(to, MOST_SAMPLE, "%.*s%s %s\n", (int)name, line, kept_labels, value);
    return n > 0 && n < MOST_SAMPLE ? (size_t)n : 0;
}

size_t ct_metrics_filter(char *page, size_t n, char kept[CT_METRICS_KEPT]) {
    size_t used = 0;
    for (char *line = page, *end; line < page + n; line = end + 1) {
        char sample[MOST_SAMPLE];
        end = memchr(line, '\n', (size_t)(page + n - line));
        end = end ? end : page + n;
        *end = 0;
        const size_t length = end - line < MOST_LINE ? filter_line(line, sample) : 0;
        if (length <= CT_METRICS_KEPT - used) {
            memcpy(kept + used, sample, length);
            used += length;
        }
    }
    return used;
}

// ---- the file -----------------------------------------------------------------------------------

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

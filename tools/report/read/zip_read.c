// SPDX-License-Identifier: Apache-2.0
#include "read/zip_read.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef CT_HAS_ZLIB
#include <zlib.h>
#endif

#include "base/checksum.h"
#include "base/heap.h"
#include "base/input_file.h"

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    COMMENT_MOST = 65535,
    DIRECTORY_MOST = 16 << 20,
    LOG_MOST = 16 << 20,
    STORED = 0,
    DEFLATED = 8,
};

struct reader {
    struct ct_zip *zip;
    uint64_t size;
    uint64_t directory; // offset
    struct ct_error *error;
};

static uint32_t get16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p) {
    return get16(p) | get16(p + 2) << 16;
}

static int fail(const struct reader *r, uint64_t offset, const char *what) {
    return ct_error_set(r->error, CT_EXIT_BAD_TRACE, "%.400s: offset %" PRIu64 ": %s", r->zip->path,
                        offset, what);
}

static int read_at(const struct reader *r, uint64_t offset, void *to, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(r->zip->fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail(r, offset, "the zip file ends or cannot be read here; get it again");
        done += (size_t)got;
    }
    return 0;
}

int ct_zip_is(const char *path) {
    struct stat st;
    const char *why;
    uint8_t magic[4] = {0};
    const int fd = ct_input_file_open(path, &st, &why);
    if (fd < 0)
        return 0;
    const int is =
        pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic && get32(magic) == LOCAL;
    close(fd);
    return is;
}

// ---- entries ------------------------------------------------------------------------------------

// The name of a trace is a plain file name.
static int is_trace_name(const uint8_t *name, size_t n) {
    if (n < 5 || n >= CT_ZIP_NAME || name[0] == '.' || memcmp(name + n - 4, ".zst", 4) != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum(name[i]) && !strchr("._-", name[i]))
            return 0;
    return 1;
}

static int check_bytes(const struct reader *r, const struct ct_zip_entry *e) {
    static uint8_t block[1 << 16];
    uint32_t crc = 0;
    for (uint64_t at = 0; at < e->bytes;) {
        const size_t n = e->bytes - at < sizeof block ? (size_t)(e->bytes - at) : sizeof block;
        if (read_at(r, e->begin + at, block, n))
            return -1;
        crc = ct_crc32(crc, block, n);
        at += n;
    }
    return crc == e->crc ? 0
                         : fail(r, e->begin, "a trace is damaged in the zip file; get it again");
}

// Reads the head that lies before an entry's bytes.
static int read_local(const struct reader *r, struct ct_zip_entry *e) {
    uint8_t head[LOCAL_BYTES], name[CT_ZIP_NAME];
    const size_t n = strlen(e->name);
    if (e->header > r->directory || r->directory - e->header < LOCAL_BYTES)
        return fail(r, e->header, "an entry of the zip file lies outside of it");
    if (read_at(r, e->header, head, sizeof head))
        return -1;
    if (get32(head) != LOCAL || get16(head + 26) != n || get16(head + 8) != e->method)
        return fail(r, e->header, "the zip file contradicts its directory");
    if (read_at(r, e->header + LOCAL_BYTES, name, n))
        return -1;
    if (memcmp(name, e->name, n) != 0)
        return fail(r, e->header, "the zip file contradicts its directory");
    e->begin = e->header + LOCAL_BYTES + n + get16(head + 28);
    if (e->begin > r->directory || e->packed > r->directory - e->begin)
        return fail(r, e->header, "an entry of the zip file lies outside of it");
    return 0;
}

// The place of a log among those of the zip file, by its name; -1: it is none.
static int find_log(const uint8_t *name, size_t n) {
    static const char *const names[CT_ZIP_LOGS] = {"log-1.txt", "log-2.txt"};
    for (int i = 0; i < CT_ZIP_LOGS; i++)
        if (n == strlen(names[i]) && memcmp(name, names[i], n) == 0)
            return i;
    return -1;
}

// What cannot be read of a log costs the log, when somebody asks for it.
static void add_log(struct ct_zip_entry *to, const uint8_t *p, const struct ct_zip_entry *e) {
    *to = *e;
    memcpy(to->name, p + CENTRAL_BYTES, get16(p + 28));
    to->name[get16(p + 28)] = 0;
}

// Adds an entry of the directory, if it is a trace.
static int add_entry(const struct reader *r, const uint8_t *p, uint64_t offset) {
    struct ct_zip *zip = r->zip;
    const size_t n = get16(p + 28);
    const int log = find_log(p + CENTRAL_BYTES, n);
    struct ct_zip_entry e = {.header = get32(p + 42),
                             .packed = get32(p + 20),
                             .bytes = get32(p + 24),
                             .method = get16(p + 10),
                             .crc = get32(p + 16)};
    if (log >= 0)
        add_log(&zip->logs[log], p, &e);
    if (!is_trace_name(p + CENTRAL_BYTES, n))
        return 0;
    if (get16(p + 8) & 1)
        return fail(r, offset, "a trace is encrypted; unpack the zip file and name the traces");
    if (e.method != STORED)
        return fail(r, offset,
                    "a trace is compressed by zip; unpack the zip file and name the traces");
    if (e.packed != e.bytes || e.bytes == UINT32_MAX || e.header == UINT32_MAX)
        return fail(r, offset, "an entry of the zip file has impossible sizes");
    if (zip->count == CT_ZIP_TRACES)
        return fail(r, offset, "too many traces in one zip file");
    memcpy(e.name, p + CENTRAL_BYTES, n);
    for (size_t i = 0; i < zip->count; i++)
        if (strcmp(zip->traces[i].name, e.name) == 0)
            return fail(r, offset, "two entries of the zip file have one name");
    CT_HEAP_GROW(zip->traces, zip->count, zip->capacity);
    zip->traces[zip->count++] = e;
    return 0;
}

static int compare_places(const void *a, const void *b) {
    const struct ct_zip_entry *const *x = a, *const *y = b;
    return (*x)->header < (*y)->header ? -1 : (*x)->header > (*y)->header;
}

// Entries that share bytes are how a small file claims to be a large one.
static int check_overlap(const struct reader *r) {
    const struct ct_zip *zip = r->zip;
    struct ct_zip_entry **order = ct_heap_resize(NULL, zip->count, sizeof *order);
    int rc = 0;
    for (size_t i = 0; i < zip->count; i++)
        order[i] = &zip->traces[i];
    if (zip->count)
        qsort(order, zip->count, sizeof *order, compare_places);
    for (size_t i = 1; i < zip->count && !rc; i++)
        if (order[i]->header < order[i - 1]->begin + order[i - 1]->bytes)
            rc = fail(r, order[i]->header, "entries of the zip file overlap");
    free(order);
    return rc;
}

// ---- the directory ------------------------------------------------------------------------------

static int read_entries(struct reader *r, const uint8_t *directory, size_t bytes, unsigned count) {
    const uint8_t *p = directory, *end = directory + bytes;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t offset = r->directory + (uint64_t)(p - directory);
        if (end - p < CENTRAL_BYTES || get32(p) != CENTRAL)
            return fail(r, offset, "the directory of the zip file is damaged");
        const size_t n = CENTRAL_BYTES + get16(p + 28) + get16(p + 30) + get16(p + 32);
        if ((size_t)(end - p) < n)
            return fail(r, offset, "the directory of the zip file is damaged");
        if (add_entry(r, p, offset))
            return -1;
        p += n;
    }
    return 0;
}

static int read_directory(struct reader *r, const uint8_t *end, uint64_t end_at) {
    const unsigned count = get16(end + 10);
    const uint64_t bytes = get32(end + 12);
    r->directory = get32(end + 16);
    if (get16(end + 4) || get16(end + 8) != count || count == 0xFFFF || bytes > DIRECTORY_MOST ||
        r->directory > end_at || bytes > end_at - r->directory)
        return fail(r, end_at,
                    "the directory of the zip file is damaged, or of a kind that "
                    "bundle does not write");
    uint8_t *directory = ct_heap_resize(NULL, (size_t)bytes, 1);
    int rc = read_at(r, r->directory, directory, (size_t)bytes) ||
             read_entries(r, directory, (size_t)bytes, count);
    for (size_t i = 0; i < r->zip->count && !rc; i++)
        rc = read_local(r, &r->zip->traces[i]) || check_bytes(r, &r->zip->traces[i]);
    free(directory);
    return rc || check_overlap(r) ? -1 : 0;
}

// The end of the directory is the last one whose comment reaches the end of the file.
static int read_zip(struct reader *r) {
    const size_t most = END_BYTES + COMMENT_MOST;
    const size_t n = r->size < most ? (size_t)r->size : most;
    uint8_t *tail = ct_heap_resize(NULL, n, 1);
    int rc = read_at(r, r->size - n, tail, n);
    size_t at = n < END_BYTES ? SIZE_MAX : n - END_BYTES;
    for (; !rc && at != SIZE_MAX; at--)
        if (get32(tail + at) == END && at + END_BYTES + get16(tail + at + 20) == n)
            break;
    if (!rc)
        rc = at == SIZE_MAX ? fail(r, r->size, "the zip file is cut; get the whole file")
                            : read_directory(r, tail + at, r->size - n + at);
    free(tail);
    return rc;
}

int ct_zip_open(struct ct_zip *zip, const char *path, struct ct_error *error) {
    struct stat st;
    struct reader r = {.zip = zip, .error = error};
    const char *why;
    *zip = (struct ct_zip){.path = path, .fd = ct_input_file_open(path, &st, &why)};
    if (zip->fd < 0)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: cannot be opened: %s", path, why);
    r.size = (uint64_t)st.st_size;
    return read_zip(&r) ? -1 : 0;
}

// ---- logs ---------------------------------------------------------------------------------------

// Unpacks all of an entry. Returns 0 if it has exactly so many bytes.
static int unpack(uint32_t method, uint8_t *from, size_t packed, uint8_t *to, size_t bytes) {
    if (method == STORED && packed == bytes) {
        memcpy(to, from, bytes);
        return 0;
    }
#ifdef CT_HAS_ZLIB
    enum { WITHOUT_HEAD = -15 };
    z_stream z = {
        .next_in = from, .avail_in = (uInt)packed, .next_out = to, .avail_out = (uInt)bytes};
    if (method != DEFLATED || inflateInit2(&z, WITHOUT_HEAD) != Z_OK)
        return -1;
    const int is_whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == bytes;
    (void)inflateEnd(&z);
    return is_whole ? 0 : -1;
#else
    return -1;
#endif
}

int ct_zip_read_log(const struct ct_zip *zip, const struct ct_zip_entry *log, struct ct_buffer *to,
                    struct ct_error *error) {
    struct ct_zip_entry e = *log;
    struct ct_zip of = *zip;
    const struct reader r = {.zip = &of, .directory = UINT32_MAX, .error = error};
    if (e.bytes > LOG_MOST || e.packed > LOG_MOST || !e.bytes)
        return fail(&r, e.header, "a log of such a size is none that bundle writes");
    if (read_local(&r, &e))
        return -1;
    uint8_t *from = ct_heap_resize(NULL, (size_t)e.packed, 1),
            *text = ct_buffer_reserve(to, e.bytes);
    int rc = read_at(&r, e.begin, from, (size_t)e.packed);
    if (!rc && (unpack(e.method, from, (size_t)e.packed, text, (size_t)e.bytes) ||
                ct_crc32(0, text, (size_t)e.bytes) != e.crc))
        rc = fail(&r, e.begin, "a log is damaged in the zip file, or packed in an unknown way");
    free(from);
    to->n += rc ? 0 : (size_t)e.bytes;
    return rc;
}

void ct_zip_close(struct ct_zip *zip, int keep) {
    if (zip->fd >= 0 && !keep)
        close(zip->fd);
    free(zip->traces);
    zip->traces = NULL;
    zip->count = zip->capacity = 0;
}

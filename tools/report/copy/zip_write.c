// SPDX-License-Identifier: Apache-2.0
// minizip and libzip would do the same with a library more in a program that needs only the C
// library; and they unpack, which a reader of strangers' files had better not.
#include "copy/zip_write.h"

#include <string.h>

#ifdef CT_HAS_ZLIB
#define ZLIB_CONST // its input is
#include <zlib.h>
#endif

#include "base/checksum.h"

enum { STORED = 0, DEFLATED = 8 };
enum { VERSION = 20, DATE = 1 << 5 | 1, ENTRY_BYTES = 30 + 46, END_BYTES = 22 };

static void put16(struct ct_buffer *b, uint32_t v) {
    ct_buffer_append(b, (uint8_t[]){(uint8_t)v, (uint8_t)(v >> 8)}, 2);
}

static void put32(struct ct_buffer *b, uint64_t v) {
    put16(b, (uint32_t)v & 0xFFFF);
    put16(b, (uint32_t)(v >> 16) & 0xFFFF);
}

uint64_t ct_zip_writer_overhead(const char *name) {
    return ENTRY_BYTES + 2 * strlen(name);
}

void ct_zip_deflate(const void *bytes, size_t n, struct ct_buffer *to) {
    *to = (struct ct_buffer){0};
#ifdef CT_HAS_ZLIB
    enum { WITHOUT_HEAD = -15, MEMORY = 8 };
    z_stream z = {.next_in = bytes, .avail_in = (uInt)n};
    if (n > UINT32_MAX / 2 || deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WITHOUT_HEAD,
                                           MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    z.avail_out = (uInt)deflateBound(&z, n);
    z.next_out = ct_buffer_reserve(to, z.avail_out);
    if (deflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out < n)
        to->n = z.total_out;
    (void)deflateEnd(&z);
#else
    (void)bytes;
    (void)n;
#endif
}

struct entry {
    const char *name;
    uint32_t method, crc;
    uint64_t packed, bytes;
};

// What the head of an entry and its line of the directory have in common.
static void put_common(struct ct_buffer *b, const struct entry *e) {
    put16(b, VERSION);
    put16(b, 0); // flags
    put16(b, e->method);
    put16(b, 0); // time
    put16(b, DATE);
    put32(b, e->crc);
    put32(b, e->packed);
    put32(b, e->bytes);
    put16(b, (uint32_t)strlen(e->name));
    put16(b, 0); // more fields
}

static int put_head(struct ct_zip_writer *z, const struct entry *e) {
    struct ct_buffer head = {0};
    const size_t n = strlen(e->name);
    struct ct_buffer *d = &z->directory;
    put32(d, 0x02014b50);
    put16(d, VERSION);
    put_common(d, e);
    put16(d, 0); // comment
    put16(d, 0); // disk
    put16(d, 0);
    put32(d, 0); // attributes
    put32(d, z->file->bytes);
    ct_buffer_append(d, e->name, n);
    z->count++;
    put32(&head, 0x04034b50);
    put_common(&head, e);
    ct_buffer_append(&head, e->name, n);
    const int rc = ct_new_file_write(z->file, head.at, head.n);
    free(head.at);
    return rc;
}

int ct_zip_writer_add(struct ct_zip_writer *z, const char *name, const void *bytes, size_t n,
                      const struct ct_buffer *deflated) {
    struct entry e = {name, STORED, ct_crc32(0, bytes, n), n, n};
    if (deflated->n) {
        e.method = DEFLATED;
        e.packed = deflated->n;
        bytes = deflated->at;
    }
    return put_head(z, &e) || ct_new_file_write(z->file, bytes, e.packed) ? -1 : 0;
}

int ct_zip_writer_add_source(struct ct_zip_writer *z, const char *name,
                             const struct ct_source *source) {
    static uint8_t block[1 << 16];
    uint32_t crc = 0;
    size_t n;
    for (uint64_t at = 0; (n = ct_source_read(source, at, block, sizeof block)) > 0; at += n)
        crc = ct_crc32(crc, block, n);
    const struct entry e = {name, STORED, crc, source->bytes, source->bytes};
    return put_head(z, &e) || ct_new_file_copy(z->file, source, 0, source->bytes) ? -1 : 0;
}

int ct_zip_writer_end(struct ct_zip_writer *z) {
    struct ct_buffer end = {0};
    put32(&end, 0x06054b50);
    put32(&end, 0); // disks
    put16(&end, z->count);
    put16(&end, z->count);
    put32(&end, z->directory.n);
    put32(&end, z->file->bytes);
    put16(&end, 0);
    const int rc = ct_new_file_write(z->file, z->directory.at, z->directory.n) ||
                   ct_new_file_write(z->file, end.at, end.n);
    free(end.at);
    free(z->directory.at);
    z->directory = (struct ct_buffer){0};
    return rc ? -1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// zlib's minizip and libzip would do the same with a library more in a program that needs only the
// C library; and they unpack, which a reader of strangers' files had better not.
#include "copy/zip_write.h"

#include <string.h>

#include "base/crc32.h"

enum { VERSION = 10, DATE = 1 << 5 | 1, ENTRY_BYTES = 30 + 46, END_BYTES = 22 };

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

// What the head of an entry and its line of the directory have in common.
static void put_common(struct ct_buffer *b, uint32_t crc, uint64_t bytes, size_t name) {
    put16(b, VERSION);
    put16(b, 0); // flags
    put16(b, 0); // stored
    put16(b, 0); // time
    put16(b, DATE);
    put32(b, crc);
    put32(b, bytes);
    put32(b, bytes);
    put16(b, (uint32_t)name);
    put16(b, 0); // more fields
}

static int put_head(struct ct_zip_writer *z, const char *name, uint32_t crc, uint64_t bytes) {
    struct ct_buffer head = {0};
    const size_t n = strlen(name);
    struct ct_buffer *d = &z->directory;
    put32(d, 0x02014b50);
    put16(d, VERSION);
    put_common(d, crc, bytes, n);
    put16(d, 0); // comment
    put16(d, 0); // disk
    put16(d, 0);
    put32(d, 0); // attributes
    put32(d, z->file->bytes);
    ct_buffer_append(d, name, n);
    z->count++;
    put32(&head, 0x04034b50);
    put_common(&head, crc, bytes, n);
    ct_buffer_append(&head, name, n);
    const int rc = ct_new_file_write(z->file, head.at, head.n);
    free(head.at);
    return rc;
}

int ct_zip_writer_add(struct ct_zip_writer *z, const char *name, const void *bytes, size_t n) {
    return put_head(z, name, ct_crc32(0, bytes, n), n) || ct_new_file_write(z->file, bytes, n) ? -1
                                                                                               : 0;
}

int ct_zip_writer_add_source(struct ct_zip_writer *z, const char *name,
                             const struct ct_source *source) {
    static uint8_t block[1 << 16];
    uint32_t crc = 0;
    size_t n;
    for (uint64_t at = 0; (n = ct_source_read(source, at, block, sizeof block)) > 0; at += n)
        crc = ct_crc32(crc, block, n);
    return put_head(z, name, crc, source->bytes) ||
                   ct_new_file_copy(z->file, source, 0, source->bytes)
               ? -1
               : 0;
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

// SPDX-License-Identifier: Apache-2.0
// Makes chunks as a trace has them.
#ifndef CT_CHUNK_H
#define CT_CHUNK_H

#include <cutrace/format/codec.h>

#include "base/heap.h"

struct ct_buffer {
    uint8_t *at;
    size_t n, capacity;
};

// Room for n more bytes.
static inline uint8_t *ct_buffer_reserve(struct ct_buffer *b, size_t n) {
    if (b->n + n > b->capacity)
        b->at = ct_heap_resize(b->at, b->capacity = b->capacity * 2 + n, 1);
    return b->at + b->n;
}

static inline void ct_buffer_append(struct ct_buffer *b, const void *bytes, size_t n) {
    uint8_t *to = ct_buffer_reserve(b, n);
    if (n)
        memcpy(to, bytes, n);
    b->n += n;
}

static inline void ct_buffer_append_varint(struct ct_buffer *b, uint64_t v) {
    struct ct_out o = {ct_buffer_reserve(b, 10), NULL, 0};
    o.end = o.at + 10;
    ct_put_varint(&o, v);
    b->n = (size_t)(o.at - b->at);
}

// A section of a body.
void ct_chunk_build_section(struct ct_buffer *body, unsigned kind, const void *bytes, size_t n);
// A whole chunk: prefix, compressed body, filler. Of the head, what is the body's own is filled in.
void ct_chunk_put(struct ct_buffer *out, const struct ct_buffer *body, struct ct_chunk head);

#endif

// SPDX-License-Identifier: Apache-2.0
// A byte buffer that grows. The owner frees `at`.
#ifndef CT_BUFFER_H
#define CT_BUFFER_H

#include <cutrace/format/bytes.h>

#include "base/heap.h"

struct ct_buffer {
    uint8_t *at;
    size_t n, capacity;
};

// Room for n more bytes after the last one, valid until the next call. `n` of the buffer stays as
// it is.
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

#endif

// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses that do not overlap, in their order.
#ifndef CT_SPANS_H
#define CT_SPANS_H

#include <stdint.h>

struct ct_span {
    uint64_t start, bytes;
    uint64_t event, t_ns; // that made it
    uint32_t stack;
    int8_t device; // or CT_NO_DEVICE
    uint8_t what;  // the user's
};

static inline uint64_t ct_span_end(const struct ct_span *span) {
    return span->start + span->bytes;
}

// Leaves of spans in order, and a directory of them.
struct ct_spans {
    struct ct_span_entry *leaf;
    uint32_t leaves, room;
};

// A place in the order. Good until a span is added or taken out.
struct ct_span_at {
    uint32_t leaf, at;
};

// The first span that ends behind an address.
struct ct_span_at ct_spans_find(const struct ct_spans *s, uint64_t address);
// The span there, NULL behind the last one; the one before it, NULL if there is none.
struct ct_span *ct_spans_get(const struct ct_spans *s, struct ct_span_at at);
struct ct_span *ct_spans_before(const struct ct_spans *s, struct ct_span_at at);
struct ct_span_at ct_spans_next(const struct ct_spans *s, struct ct_span_at at);
// The first span that overlaps [start, start + bytes), or NULL.
struct ct_span *ct_spans_over(const struct ct_spans *s, uint64_t start, uint64_t bytes);
// The span that begins at an address, or NULL.
struct ct_span *ct_spans_exact(const struct ct_spans *s, uint64_t start);
// Overlaps none that is there, and has at least one byte.
void ct_spans_add(struct ct_spans *s, const struct ct_span *span);
// The one at a place, which is one of a span.
void ct_spans_take(struct ct_spans *s, struct ct_span_at at);
void ct_spans_free(struct ct_spans *s);

#endif

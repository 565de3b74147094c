// SPDX-License-Identifier: Apache-2.0
// The bytes of a chunk's body: numbers, texts and sections are put to a struct ct_out and got from
// a struct ct_in.
//
// Header-only, because the preload library and the report share no objects. Nothing here allocates,
// and nothing reads or writes beyond the bounds of its cursor. A cursor that reached its end too
// early has `bad` set; from then on it yields zeros, so callers check once, after a record.
#ifndef CUTRACE_BYTES_H
#define CUTRACE_BYTES_H

#include <string.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/format.h>

struct ct_out {
    uint8_t *at, *end;
    int bad; // the buffer was too small: discard what was written
};

struct ct_in {
    const uint8_t *at, *end;
    int bad; // truncated or malformed
};

static inline uint64_t ct_zigzag(uint64_t delta) {
    return (delta << 1) ^ (uint64_t)((int64_t)delta >> 63);
}

static inline uint64_t ct_unzigzag(uint64_t v) {
    return (v >> 1) ^ (0 - (v & 1));
}

static inline void ct_put_varint(struct ct_out *o, uint64_t v) {
    if (o->end - o->at < 10) {
        o->bad = 1;
        return;
    }
    while (v >= 0x80) {
        *o->at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *o->at++ = (uint8_t)v;
}

static inline void ct_put_bytes(struct ct_out *o, const void *p, size_t n) {
    if ((size_t)(o->end - o->at) < n) {
        o->bad = 1;
        return;
    }
    if (n)
        memcpy(o->at, p, n);
    o->at += n;
}

static inline void ct_put_text(struct ct_out *o, const char *s, size_t n) {
    ct_put_varint(o, n);
    ct_put_bytes(o, s, n);
}

static inline uint64_t ct_get_varint(struct ct_in *in) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->at >= in->end)
            break;
        const uint8_t b = *in->at++;
        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    in->bad = 1;
    in->at = in->end;
    return 0;
}

// The next n bytes; NULL if there are fewer.
static inline const uint8_t *ct_get_bytes(struct ct_in *in, uint64_t n) {
    if ((uint64_t)(in->end - in->at) < n) {
        in->bad = 1;
        in->at = in->end;
        return NULL;
    }
    const uint8_t *p = in->at;
    in->at += n;
    return p;
}

// A cursor over the next n bytes; `in` moves past them.
static inline struct ct_in ct_get_slice(struct ct_in *in, uint64_t n) {
    const uint8_t *p = ct_get_bytes(in, n);
    if (!p)
        return (struct ct_in){NULL, NULL, 1};
    return (struct ct_in){p, p + n, 0};
}

// A section is written before its length is known, so its length has a fixed size: 4 bytes,
// little-endian. ct_section_begin returns where ct_section_end writes it.
static inline uint8_t *ct_section_begin(struct ct_out *o, enum ct_section kind) {
    static const uint8_t zero[4];
    ct_put_varint(o, kind);
    uint8_t *length_at = o->at;
    ct_put_bytes(o, zero, 4);
    return length_at;
}

static inline void ct_section_end(struct ct_out *o, uint8_t *length_at) {
    if (o->bad)
        return;
    const uint32_t n = (uint32_t)(o->at - length_at - 4);
    CT_ASSERT(o->at - length_at >= 4 && o->at <= o->end);
    for (int i = 0; i < 4; i++)
        length_at[i] = (uint8_t)(n >> (8 * i));
}

static inline void ct_put_u32(struct ct_out *o, uint32_t v) {
    const uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    ct_put_bytes(o, b, sizeof b);
}

// Reads a length that ct_section_end or ct_put_u32 wrote.
static inline uint32_t ct_get_u32(struct ct_in *in) {
    const uint8_t *p = ct_get_bytes(in, 4);
    return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24
             : 0;
}

// The next section of a body: returns 1 and sets its kind and cursor; 0 at the end; -1 if the body
// is malformed.
static inline int ct_section_next(struct ct_in *body, unsigned *kind, struct ct_in *section) {
    if (body->at == body->end)
        return 0;
    const uint64_t k = ct_get_varint(body);
    const uint32_t n = ct_get_u32(body);
    *section = ct_get_slice(body, n);
    *kind = k > 0xFFFF ? 0xFFFF : (unsigned)k;
    return body->bad || section->bad ? -1 : 1;
}

#endif

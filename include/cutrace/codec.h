// SPDX-License-Identifier: Apache-2.0
// Coding of a chunk's body, both directions: bytes, sections and the columns of events.
//
// Header-only, because the preload library and the report must not share objects. Nothing here
// allocates, and nothing reads or writes beyond the bounds of its cursor: a cursor that ran over an
// end has `bad` set and yields zeros from then on, so that callers check once, after a record.
#ifndef CUTRACE_CODEC_H
#define CUTRACE_CODEC_H

#include <string.h>

#include "format.h"

struct ct_out {
    uint8_t *at, *end;
    int bad; // the buffer was too small; what was written is to be thrown away
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

// The next n bytes, or NULL when there are fewer.
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

// A cursor over the next n bytes; `in` moves behind them.
static inline struct ct_in ct_get_sub(struct ct_in *in, uint64_t n) {
    const uint8_t *p = ct_get_bytes(in, n);
    if (!p)
        return (struct ct_in){NULL, NULL, 1};
    return (struct ct_in){p, p + n, 0};
}

// A section, or a dictionary entry, is written before its length is known. Lengths of sections are
// therefore 4 bytes little-endian; ct_section_begin returns where the length will go.
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
    for (int i = 0; i < 4; i++)
        length_at[i] = (uint8_t)(n >> (8 * i));
}

// A length as ct_section_end writes it.
static inline uint32_t ct_get_u32(struct ct_in *in) {
    const uint8_t *p = ct_get_bytes(in, 4);
    return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24
             : 0;
}

// Next section of a body: 1 and its kind and cursor, 0 at the end, -1 if the body is malformed.
static inline int ct_section_next(struct ct_in *body, unsigned *kind, struct ct_in *section) {
    if (body->at == body->end)
        return 0;
    const uint64_t k = ct_get_varint(body);
    const uint32_t n = ct_get_u32(body);
    *section = ct_get_sub(body, n);
    *kind = k > 0xFFFF ? 0xFFFF : (unsigned)k;
    return body->bad || section->bad ? -1 : 1;
}

// ---- events ---------------------------------------------------------------------------------
// An EVENTS section: varint number of records; then columns until its end. A column is varint field
// number, varint coding, varint byte length, bytes. Field 0 is the presence mask, one VARINT for
// each record, and comes first; any other column holds a value for each record that has its bit.

static inline void ct_column_put(struct ct_out *o, enum ct_coding coding, uint64_t *last,
                                 uint64_t v) {
    ct_put_varint(o, coding == CT_DELTA ? ct_zigzag(v - *last) : v);
    *last = v;
}

// Value of a field, widened; signed fields are sign-extended so that small negatives stay small.
static inline uint64_t ct_event_get(const struct ct_event *e, unsigned field) {
    switch (field) {
#define CT_FIELD(number, member, ctype, coding, json) \
    case number:                                      \
        return (uint64_t)e->member;
#include "events.def"
    default:
        return 0;
    }
}

static inline void ct_event_set(struct ct_event *e, unsigned field, uint64_t v) {
    switch (field) {
#define CT_FIELD(number, member, ctype, coding, json) \
    case number:                                      \
        e->member = (ctype)v;                         \
        break;
#include "events.def"
    default:
        return;
    }
    e->present |= UINT64_C(1) << field;
}

static inline enum ct_coding ct_field_coding(unsigned field) {
    switch (field) {
#define CT_FIELD(number, member, ctype, coding, json) \
    case number:                                      \
        return CT_##coding;
#include "events.def"
    default:
        return CT_VARINT;
    }
}

static inline void ct_put_column(struct ct_out *o, unsigned field, const struct ct_event *events,
                                 size_t n) {
    const enum ct_coding coding = ct_field_coding(field);
    static const uint8_t zero[4];
    ct_put_varint(o, field);
    ct_put_varint(o, coding);
    uint8_t *length_at = o->at;
    ct_put_bytes(o, zero, 4);
    uint64_t last = 0;
    for (size_t i = 0; i < n && !o->bad; i++) {
        if (field == 0)
            ct_put_varint(o, events[i].present);
        else if (events[i].present >> field & 1)
            ct_column_put(o, coding, &last, ct_event_get(&events[i], field));
    }
    ct_section_end(o, length_at);
}

static inline void ct_put_events(struct ct_out *o, const struct ct_event *events, size_t n) {
    uint64_t used = 0;
    for (size_t i = 0; i < n; i++)
        used |= events[i].present;
    uint8_t *length_at = ct_section_begin(o, CT_SECTION_EVENTS);
    ct_put_varint(o, n);
    ct_put_column(o, 0, events, n);
    for (unsigned f = 1; f < CT_FIELDS_END; f++)
        if (used >> f & 1)
            ct_put_column(o, f, events, n);
    ct_section_end(o, length_at);
}

// Reads the records of an EVENTS section in order.
struct ct_events_in {
    uint64_t left;  // records not read yet
    uint64_t known; // columns that the section has and this version knows
    struct {
        struct ct_in in;
        uint64_t last;
        enum ct_coding coding;
    } column[64];
};

// 0, or -1 if the section is malformed. Columns of unknown fields are skipped.
static inline int ct_events_open(struct ct_events_in *r, struct ct_in section) {
    r->left = ct_get_varint(&section);
    r->known = 0;
    while (section.at < section.end) {
        const uint64_t field = ct_get_varint(&section);
        const uint64_t coding = ct_get_varint(&section);
        const uint32_t n = ct_get_u32(&section);
        struct ct_in bytes = ct_get_sub(&section, n);
        if (section.bad || coding > CT_DELTA)
            return -1;
        if (field >= 64)
            continue;
        if (r->known >> field & 1)
            return -1;
        r->known |= UINT64_C(1) << field;
        r->column[field].in = bytes;
        r->column[field].last = 0;
        r->column[field].coding = (enum ct_coding)coding;
    }
    if (section.bad || r->left > CT_MAX_EVENTS || (r->left && !(r->known & 1)))
        return -1;
    return 0;
}

static inline uint64_t ct_column_get(struct ct_events_in *r, unsigned field) {
    uint64_t v = ct_get_varint(&r->column[field].in);
    if (r->column[field].coding == CT_DELTA)
        v = r->column[field].last += ct_unzigzag(v);
    return v;
}

// Next record: 1, 0 behind the last one, -1 if it is malformed.
static inline int ct_events_next(struct ct_events_in *r, struct ct_event *e) {
    if (!r->left)
        return 0;
    r->left--;
    uint64_t mask = ct_column_get(r, 0);
    if (r->column[0].in.bad)
        return -1;
    e->present = 0;
    if (mask & 1)
        return -1;
    while (mask) {
        const unsigned field = (unsigned)__builtin_ctzll(mask);
        mask &= mask - 1;
        if (!(r->known >> field & 1))
            return -1;
        const uint64_t v = ct_column_get(r, field);
        if (r->column[field].in.bad)
            return -1;
        if (field < CT_FIELDS_END)
            ct_event_set(e, field, v);
    }
    return 1;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The encoder: events into the columns of a packed EVENTS section. FORMAT.md, section 3, is the
// specification.
//
// The streams of the columns grow at their ends only, in memory that the caller provides, and no
// section refers to another one. So a section may be cut after any record: the bytes that the
// streams have then are a valid section of that many records. A recorder relies on this when it
// keeps the streams in a file that outlives the process. Nothing here allocates. One thread at a
// time uses an encoder. The decoder is in decode.h.
#ifndef CUTRACE_ENCODE_H
#define CUTRACE_ENCODE_H

#include <cutrace/format/assert.h>
#include <cutrace/format/columns.h>
#include <cutrace/format/event_match.h>
#include <cutrace/format/hot.h>

#define CT_COLUMN_ROOM 16        // least bytes that `room` must provide
#define CT_COLUMN_HEAD_BYTES 20u // most bytes that ct_encoder_put_column_head writes

struct ct_encoder {
    // Where each column goes on; at == end == NULL as long as the column is empty.
    struct ct_out stream[CT_COLUMNS];
    // Called when `out` has fewer than CT_COLUMN_ROOM bytes left, or none: points `out` to new
    // memory. Returns 0, or -1 if there is none.
    int (*room)(void *user, unsigned column, struct ct_out *out);
    void *user;
    uint32_t records; // put since ct_encoder_begin
    // Time of the record after the next one, if the caller knows it; else 0. Each put resets it to
    // 0. Without it a record may take some bytes more: it may share its tick with the record after
    // it, so its time is written exactly.
    uint64_t next_ns;

    // The encoder's own from here on.
    struct ct_encoder_tables *tables;
    uint64_t tick_ns, tick;       // tick: of the last record
    uint64_t tick_inverse;        // 2^64 / tick_ns
    uint64_t alloc_end;           // end of the last allocation
    uint64_t last[CT_FIELDS_END]; // last values of the columns that hold differences
    int timed;                    // a record with a time was put
    uint32_t stack;               // highest stack of a template
    struct ct_known_shape {
        struct ct_match match;
        unsigned number;
    } recent[8];                // by op: shape of its last record
    uint32_t shapes, templates; // that have a number
    uint32_t allocs, frees;     // records with an address, so far
    struct ct_reported reported[CT_REPORTED_DEVICES];
};

enum {
    CT_WAYS = 4, // entries of a set of the tables below
    CT_TEMPLATE_SETS = 4096,
    CT_ADDRESS_SETS = 2048,
    CT_END_SLOTS = 4096,
    CT_SHAPE_SLOTS = 2048,
    CT_ORDINALS = 65535, // highest ordinal that an address can remember
};

// The tables are caches: what they do not hold is written in full when it comes again. Templates
// are never replaced, because the frequent ones come early. Addresses are replaced by newer ones.
struct ct_encoder_tables {
    struct ct_known_template {
        uint64_t bytes;
        uint32_t stack;
        uint16_t shape;
        uint16_t number; // + 1; 0: no template
    } templates[CT_TEMPLATE_SETS][CT_WAYS];
    struct ct_known_address {
        uint64_t address;
        uint16_t alloc, free; // ordinals of its last allocation and free, from 1 on; 0: none
        uint16_t row;         // of the size that was allocated there
        uint16_t used;        // number of the record that looked for it last, modulo 2^16
    } addresses[CT_ADDRESS_SETS][CT_WAYS];
    // Ends of allocations: address << 16 | ordinal. An end that does not fit is not stored.
    uint64_t ends[CT_END_SLOTS];
    struct ct_shape shapes[CT_SHAPES];
    uint16_t shape_at[CT_SHAPE_SLOTS]; // number + 1
    uint64_t rows[CT_ROWS][CT_ROW];
};

// The table entries that a record will read. Found some records ahead, they can be prefetched.
struct ct_encoder_probe {
    struct ct_known_template *templates; // a set
    struct ct_known_address *addresses;  // a set
    uint64_t *end;
};

// Size of the memory that ct_encoder_begin asks for.
static inline size_t ct_encoder_memory_bytes(void) {
    return sizeof(struct ct_encoder_tables);
}

// Begins a section: all streams are empty. `memory` has ct_encoder_memory_bytes() bytes, aligned to
// 8, and belongs to the encoder until the next ct_encoder_begin. tick_ns is the resolution of times
// and durations.
static inline void ct_encoder_begin(struct ct_encoder *c, void *memory, uint64_t tick_ns) {
    const struct ct_encoder blank = {.room = c->room, .user = c->user};
    *c = blank;
    c->tick_ns = tick_ns < CT_MAX_TICK_NS ? tick_ns : CT_MAX_TICK_NS;
    if (!tick_ns)
        c->tick_ns = 1;
    c->tick_inverse = UINT64_MAX / c->tick_ns;
    c->tables = (struct ct_encoder_tables *)memory;
    memset(memory, 0, sizeof *c->tables);
}

CT_HOT struct ct_out *ct_encoder_reserve(struct ct_encoder *c, unsigned column) {
    struct ct_out *o = &c->stream[column];
    if (__builtin_expect(o->end - o->at < CT_COLUMN_ROOM, 0) && c->room(c->user, column, o))
        return NULL;
    return o;
}

CT_HOT int ct_encoder_put_byte(struct ct_encoder *c, unsigned column, uint64_t v) {
    struct ct_out *o = &c->stream[column];
    if (__builtin_expect(o->at == o->end, 0) && c->room(c->user, column, o))
        return -1;
    *o->at++ = (uint8_t)v;
    return 0;
}

CT_HOT int ct_encoder_put_varint(struct ct_encoder *c, unsigned column, uint64_t v) {
    struct ct_out *o = ct_encoder_reserve(c, column);
    if (!o)
        return -1;
    for (; v >= 0x80; v >>= 7)
        *o->at++ = (uint8_t)(v | 0x80);
    *o->at++ = (uint8_t)v;
    return 0;
}

// A field that has a value for each record, or one of a shape.
static inline int ct_encoder_put_field(struct ct_encoder *c, unsigned field, uint64_t v) {
    const uint64_t last = c->last[field];
    c->last[field] = v;
    return ct_encoder_put_varint(c, field,
                                 ct_field_coding(field) == CT_DELTA ? ct_zigzag(v - last) : v);
}

CT_COLD int ct_encoder_put_fields(struct ct_encoder *c, const struct ct_event *e, uint64_t fields) {
    for (; fields; fields &= fields - 1) {
        const unsigned field = (unsigned)__builtin_ctzll(fields);
        if (ct_encoder_put_field(c, field, ct_event_get(e, field)))
            return -1;
    }
    return 0;
}

CT_HOT uint64_t ct_encoder_hash(uint64_t a, uint64_t b) {
    a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
    return a ^ a >> 32;
}

// All bits for a condition that is true, else none: a choice that the compiler makes no branch of,
// for what cannot be predicted.
CT_HOT unsigned ct_encoder_mask(int condition) {
    return 0u - (unsigned)(condition != 0);
}

// ---- templates ----------------------------------------------------------------------------------

// ct_encoder_get_shape for a shape that is not the recent one of its op.
CT_COLD unsigned ct_encoder_find_shape(struct ct_encoder *c, const struct ct_event *e,
                                       int *is_new) {
    struct ct_encoder_tables *t = c->tables;
    struct ct_shape s;
    ct_shape_from_event(&s, e, e->present & CT_ALL_FIELDS);
    const uint64_t h = ct_encoder_hash(
        ct_encoder_hash(ct_encoder_hash(s.present, s.context), s.stream ^ s.pool << 1),
        ct_encoder_hash((uint64_t)s.api << 32 | s.op, (uint64_t)(uint32_t)s.result << 32 ^ s.flags ^
                                                          (uint64_t)(uint32_t)s.device << 8 ^
                                                          (uint64_t)s.space << 20));
    unsigned at = (unsigned)h % CT_SHAPE_SLOTS;
    for (; t->shape_at[at]; at = (at + 1) % CT_SHAPE_SLOTS)
        if (ct_shape_matches(&t->shapes[t->shape_at[at] - 1], e))
            return t->shape_at[at] - 1u;
    *is_new = 1;
    if (c->shapes == CT_SHAPES)
        return CT_SHAPES;
    t->shapes[c->shapes] = s;
    t->shape_at[at] = (uint16_t)++c->shapes;
    return c->shapes - 1;
}

// Number of an event's shape; CT_SHAPES if it has none and all numbers are in use.
CT_HOT unsigned ct_encoder_get_shape(struct ct_encoder *c, const struct ct_event *e, int *is_new) {
    struct ct_known_shape *recent = &c->recent[CT_HAS(e, op) ? e->op % 8 : 0];
    *is_new = 0;
    if (ct_match_test(&recent->match, e, CT_ALL_FIELDS))
        return recent->number;
    const unsigned number = ct_encoder_find_shape(c, e, is_new);
    if (number < CT_SHAPES) {
        recent->number = number;
        ct_match_set(&recent->match, e, CT_ALL_FIELDS, CT_SHAPE_FIELDS);
    }
    return number;
}

// Writes a template in full: shape, size and stack.
CT_HOT int ct_encoder_define_template(struct ct_encoder *c, const struct ct_event *e,
                                      unsigned shape, int new_shape) {
    if (ct_encoder_put_varint(c, CT_COLUMN_SHAPE, new_shape ? 0 : shape + 1))
        return -1;
    if (new_shape && (ct_encoder_put_varint(c, CT_COLUMN_SHAPE, e->present & CT_ALL_FIELDS) ||
                      ct_encoder_put_fields(c, e, e->present & CT_SHAPE_FIELDS)))
        return -1;
    if (CT_HAS(e, bytes)) {
        const uint64_t code = ct_size_encode(e->bytes);
        if (ct_encoder_put_varint(c, CT_FIELD_bytes, code) ||
            (code == CT_SIZE_PLAIN && ct_encoder_put_varint(c, CT_FIELD_bytes, e->bytes)))
            return -1;
    }
    if (CT_HAS(e, stack)) {
        if (ct_encoder_put_varint(c, CT_FIELD_stack, (uint32_t)(c->stack + 1 - e->stack)))
            return -1;
        c->stack = e->stack > c->stack ? e->stack : c->stack;
    }
    return 0;
}

CT_HOT int ct_encoder_put_template_number(struct ct_encoder *c, unsigned number) {
    if (number < CT_TEMPLATE_SMALL)
        return ct_encoder_put_byte(c, CT_COLUMN_TEMPLATE, CT_TEMPLATE_FIRST + number);
    number -= CT_TEMPLATE_SMALL;
    if (ct_encoder_put_byte(c, CT_COLUMN_TEMPLATE, CT_TEMPLATE_WIDE + (number >> 8)))
        return -1;
    return ct_encoder_put_byte(c, CT_COLUMN_TEMPLATE_LOW, number);
}

// A known template is written as its number, any other one in full. The latter gets a number if its
// set has a free entry.
CT_HOT int ct_encoder_put_template(struct ct_encoder *c, const struct ct_event *e,
                                   struct ct_known_template *set) {
    int new_shape;
    const uint64_t bytes = CT_GET(e, bytes);
    const uint32_t stack = CT_GET(e, stack);
    const unsigned shape = ct_encoder_get_shape(c, e, &new_shape);
    struct ct_known_template *t = set;
    for (; t < set + CT_WAYS && t->number; t++)
        if (t->bytes == bytes && t->stack == stack && t->shape == shape)
            return ct_encoder_put_template_number(c, t->number - 1u);
    const int numbered = t < set + CT_WAYS && shape < CT_SHAPES && c->templates < CT_TEMPLATES;
    if (numbered)
        *t = (struct ct_known_template){bytes, stack, (uint16_t)shape, (uint16_t)++c->templates};
    return ct_encoder_put_byte(c, CT_COLUMN_TEMPLATE,
                               numbered ? CT_TEMPLATE_NUMBERED : CT_TEMPLATE_NEW) ||
                   ct_encoder_define_template(c, e, shape, new_shape)
               ? -1
               : 0;
}

// ---- addresses ----------------------------------------------------------------------------------

// Replaces the address of the set that was looked for the longest time ago.
static inline struct ct_known_address *ct_encoder_replace_oldest(struct ct_known_address *set,
                                                                 uint64_t address, uint16_t now) {
    struct ct_known_address *oldest = set;
    for (unsigned i = 1; i < CT_WAYS; i++)
        if ((uint16_t)(now - set[i].used) > (uint16_t)(now - oldest->used))
            oldest = &set[i];
    *oldest = (struct ct_known_address){.address = address, .used = now};
    return oldest;
}

// The set's entry of an address; a new one if there was none.
CT_HOT struct ct_known_address *ct_encoder_find_address(const struct ct_encoder *c,
                                                        struct ct_known_address *set,
                                                        uint64_t address) {
    const uint16_t now = (uint16_t)c->records;
    // Which entry it is cannot be predicted, so nothing branches on it.
    // A record with an address was probed for its set.
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    unsigned at = set[1].address == address;
    at += (2 - at) & ct_encoder_mask(set[2].address == address);
    at += (3 - at) & ct_encoder_mask(set[3].address == address);
    struct ct_known_address *a = &set[at];
    if (a->address != address)
        return ct_encoder_replace_oldest(set, address, now);
    a->used = now;
    return a;
}
_Static_assert(CT_WAYS == 4, "each entry is compared");

CT_HOT uint64_t *ct_encoder_end_slot(const struct ct_encoder *c, uint64_t address) {
    return &c->tables->ends[(ct_encoder_hash(address, 0) >> 16) % CT_END_SLOTS];
}

// How many allocations ago one ended at the address (1: the last one); 0: unknown.
CT_HOT unsigned ct_encoder_end_distance(const struct ct_encoder *c, uint64_t address) {
    const uint64_t known = *ct_encoder_end_slot(c, address);
    return known && known >> 16 == address ? c->allocs + 1 - (known & UINT16_MAX) : 0;
}

// Writes all bytes of an address.
static inline int ct_encoder_put_full_address(struct ct_encoder *c, uint64_t ptr) {
    const uint64_t high = ptr >> 32, last = c->last[CT_FIELD_ptr];
    c->last[CT_FIELD_ptr] = high;
    for (unsigned i = 0; i < 4; i++)
        if (ct_encoder_put_byte(c, CT_COLUMN_ADDRESS_0 + i, ptr >> (8 * i)))
            return -1;
    return ct_encoder_put_varint(c, CT_COLUMN_ADDRESS_4, ct_zigzag(high - last));
}

// Writes a distance d >= 1: small ones as codes from `first` on, others as codes from `wide` on and
// a low byte.
CT_HOT int ct_encoder_put_distance(struct ct_encoder *c, unsigned column, unsigned first,
                                   unsigned wide, unsigned d) {
    const unsigned small = wide - first;
    CT_ASSERT(d >= 1);
    if (--d < small)
        return ct_encoder_put_byte(c, column, first + d);
    d -= small;
    if (ct_encoder_put_byte(c, column, wide + (d >> 8)))
        return -1;
    return ct_encoder_put_byte(c, CT_COLUMN_ADDRESS_LOW, d);
}

CT_HOT int ct_encoder_put_alloc_address(struct ct_encoder *c, uint64_t ptr, uint64_t *row,
                                        const struct ct_known_address *a) {
    const unsigned i = ct_row_find(row, ptr);
    if (i < CT_ROW) {
        ct_row_remove(row, i);
        return ct_encoder_put_byte(c, CT_FIELD_ptr, CT_ALLOC_CODE_ROW + i);
    }
    if (ptr == c->alloc_end)
        return ct_encoder_put_byte(c, CT_FIELD_ptr, CT_ALLOC_CODE_NEXT);
    if (a->free && c->frees + 1 - a->free <= CT_FREED_MAX)
        return ct_encoder_put_distance(c, CT_FIELD_ptr, CT_ALLOC_CODE_FREED,
                                       CT_ALLOC_CODE_FREED_WIDE, c->frees + 1 - a->free);
    const unsigned end_ago = ct_encoder_end_distance(c, ptr);
    if (end_ago && end_ago <= CT_ENDS_MAX)
        return ct_encoder_put_distance(c, CT_FIELD_ptr, CT_ALLOC_CODE_END, CT_ALLOC_CODE_END,
                                       end_ago);
    if (ct_encoder_put_byte(c, CT_FIELD_ptr, CT_ALLOC_CODE_FULL))
        return -1;
    return ct_encoder_put_full_address(c, ptr);
}

CT_HOT int ct_encoder_put_alloc(struct ct_encoder *c, const struct ct_event *e,
                                const struct ct_encoder_probe *at) {
    const uint64_t bytes = CT_GET(e, bytes), end = e->ptr + bytes;
    const unsigned row = ct_row_index(bytes);
    struct ct_known_address *a = ct_encoder_find_address(c, at->addresses, e->ptr);
    if (ct_encoder_put_alloc_address(c, e->ptr, c->tables->rows[row], a))
        return -1;
    c->alloc_end = end;
    if (++c->allocs <= CT_ORDINALS) {
        a->alloc = (uint16_t)c->allocs;
        a->row = (uint16_t)row;
        if (at->end && !(end >> 48))
            *at->end = end << 16 | c->allocs;
    }
    return 0;
}

CT_HOT int ct_encoder_put_free(struct ct_encoder *c, const struct ct_event *e,
                               const struct ct_encoder_probe *at) {
    struct ct_known_address *a = ct_encoder_find_address(c, at->addresses, e->ptr);
    int rc;
    if (a->alloc && c->allocs + 1 - a->alloc <= CT_FREE_CODE_MAX) {
        rc = ct_encoder_put_distance(c, CT_COLUMN_FREE_ADDRESS, CT_FREE_CODE_NEAR,
                                     CT_FREE_CODE_WIDE, c->allocs + 1 - a->alloc);
        ct_row_push(c->tables->rows[a->row], e->ptr);
    } else {
        rc = ct_encoder_put_byte(c, CT_COLUMN_FREE_ADDRESS, CT_FREE_CODE_FULL);
        if (!rc)
            rc = ct_encoder_put_full_address(c, e->ptr);
    }
    if (++c->frees <= CT_ORDINALS)
        a->free = (uint16_t)c->frees;
    return rc;
}

// ---- times --------------------------------------------------------------------------------------

// ns / tick_ns, and the remainder in *rest. The multiplication yields the quotient or one less.
CT_HOT uint64_t ct_encoder_to_ticks(const struct ct_encoder *c, uint64_t ns, uint64_t *rest) {
    __extension__ typedef unsigned __int128 wide;
    const uint64_t ticks = (uint64_t)((wide)ns * c->tick_inverse >> 64);
    const uint64_t beyond = ns - ticks * c->tick_ns;
    *rest = beyond < c->tick_ns ? beyond : beyond - c->tick_ns;
    CT_ASSERT(*rest < c->tick_ns);
    return ticks + (beyond >= c->tick_ns);
}

CT_HOT int ct_encoder_put_ticks(struct ct_encoder *c, unsigned low, unsigned high,
                                unsigned high_byte, uint64_t low_byte) {
    if (ct_encoder_put_byte(c, high, high_byte))
        return -1;
    return ct_encoder_put_byte(c, low, low_byte);
}

// Slow path of ct_encoder_put_time: the first time, a step back, a large step, or a long tick.
CT_COLD int ct_encoder_put_far_time(struct ct_encoder *c, uint64_t ticks, int exact,
                                    uint64_t rest) {
    int rc;
    // After a step back `ticks` has wrapped around: it is very large.
    if (c->timed && ticks < CT_TICKS_EXACT << 8 && (!exact || !ticks))
        rc = ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, (unsigned)(ticks >> 8),
                                  ticks);
    else if (c->timed && ticks < 256)
        rc = ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, CT_TICKS_EXACT, ticks);
    else
        rc = ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, CT_TICKS_MORE,
                                  (unsigned)exact) ||
             ct_encoder_put_varint(c, CT_COLUMN_TIME_MORE, ct_zigzag(ticks));
    c->timed = 1;
    return rc || (exact && ct_encoder_put_varint(c, CT_COLUMN_TIME_REST, rest)) ? -1 : 0;
}

// The time of a record that shares its tick with a neighbour, or may share it, is written exactly.
// So the order of times survives, different times stay different, and a rounded time is the only
// one of its tick. Whether a time is exact cannot be predicted, so nothing branches on it:
// the rest is always stored, but the stream grows only where the time is exact.
CT_HOT int ct_encoder_put_time(struct ct_encoder *c, uint64_t t_ns, uint64_t next_ns) {
    struct ct_out *o = &c->stream[CT_COLUMN_TIME_REST];
    uint64_t rest;
    const uint64_t tick = ct_encoder_to_ticks(c, t_ns, &rest), ticks = tick - c->tick;
    const int rounded =
        (ticks != 0) & (next_ns != 0) & (next_ns - t_ns + rest >= c->tick_ns) & (c->timed != 0);
    const int exact = !rounded & (c->tick_ns > 1);
    c->tick = tick;
    if (__builtin_expect(ticks >= 256 || rest >= 0x80 || o->at == o->end || !c->timed, 0))
        return ct_encoder_put_far_time(c, ticks, exact, rest);
    *o->at = (uint8_t)rest;
    o->at += exact;
    const unsigned high = CT_TICKS_EXACT & ct_encoder_mask(exact & (ticks != 0));
    return ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, high, ticks);
}

CT_HOT int ct_encoder_put_duration(struct ct_encoder *c, uint64_t ns) {
    uint64_t rest;
    const uint64_t ticks = ct_encoder_to_ticks(c, ns, &rest);
    if (ticks < CT_TICKS_MORE << 8)
        return ct_encoder_put_ticks(c, CT_FIELD_duration_ns, CT_COLUMN_DURATION_HIGH,
                                    (unsigned)(ticks >> 8), ticks);
    if (ct_encoder_put_ticks(c, CT_FIELD_duration_ns, CT_COLUMN_DURATION_HIGH, CT_TICKS_MORE, 0))
        return -1;
    return ct_encoder_put_varint(c, CT_COLUMN_DURATION_MORE, ticks);
}

// ---- totals that PyTorch reports ----------------------------------------------------------------

CT_HOT int ct_encoder_put_reported(struct ct_encoder *c, const struct ct_event *e) {
    struct ct_reported *last = ct_reported_last(c->reported, e);
    if (CT_HAS(e, reserved_bytes)) {
        const uint64_t difference = e->reserved_bytes - last->reserved;
        last->reserved = e->reserved_bytes;
        if (ct_encoder_put_varint(c, CT_FIELD_reserved_bytes, ct_zigzag(difference)))
            return -1;
    }
    if (CT_HAS(e, allocated_bytes)) {
        const uint64_t difference = e->allocated_bytes - ct_reported_expected(last, e);
        last->allocated = e->allocated_bytes;
        if (ct_encoder_put_varint(c, CT_FIELD_allocated_bytes, ct_zigzag(difference)))
            return -1;
    }
    return 0;
}

// The fields with a value for each record, except the thread.
CT_HOT int ct_encoder_put_rare(struct ct_encoder *c, const struct ct_event *e) {
    uint64_t rare = e->present & CT_RARE_FIELDS;
    if (ct_event_reports_totals(e)) {
        rare &= ~CT_REPORTED_FIELDS;
        if (ct_encoder_put_reported(c, e))
            return -1;
    }
    return rare && ct_encoder_put_fields(c, e, rare) ? -1 : 0;
}

// Finds the table entries that a record will read, and prefetches them. Valid until the next
// ct_encoder_begin with other memory.
CT_HOT struct ct_encoder_probe ct_encoder_probe(const struct ct_encoder *c,
                                                const struct ct_event *e) {
    const uint64_t bytes = CT_GET(e, bytes);
    const uint32_t stack = CT_GET(e, stack);
    struct ct_encoder_tables *t = c->tables;
    struct ct_encoder_probe at = {
        t->templates[ct_encoder_hash(ct_encoder_hash(bytes, stack), e->op) % CT_TEMPLATE_SETS],
        NULL, NULL};
    __builtin_prefetch(at.templates);
    if (!CT_HAS(e, ptr))
        return at;
    at.addresses = t->addresses[(ct_encoder_hash(e->ptr, 0) >> 8) % CT_ADDRESS_SETS];
    __builtin_prefetch(at.addresses);
    if (ct_event_allocates(e)) {
        at.end = ct_encoder_end_slot(c, e->ptr + bytes);
        __builtin_prefetch(at.end);
        __builtin_prefetch(t->rows[ct_row_index(bytes)]);
    }
    return at;
}

// Appends a record that was probed. Returns 0, or -1 if memory ran out: the section then ends with
// the last record, at the lengths that the streams had after it.
CT_HOT int ct_encoder_put_probed(struct ct_encoder *c, const struct ct_event *e,
                                 const struct ct_encoder_probe *at) {
    const uint64_t next_ns = c->next_ns;
    c->next_ns = 0;
    if (!c->records && ct_encoder_put_varint(c, CT_COLUMN_TIME_MORE, c->tick_ns))
        return -1;
    if (ct_encoder_put_template(c, e, at->templates) ||
        (CT_HAS(e, t_ns) && ct_encoder_put_time(c, e->t_ns, next_ns)) ||
        (CT_HAS(e, thread) && ct_encoder_put_varint(c, CT_FIELD_thread, e->thread)) ||
        (e->present & CT_RARE_FIELDS && ct_encoder_put_rare(c, e)))
        return -1;
    if (CT_HAS(e, ptr) &&
        (ct_event_allocates(e) ? ct_encoder_put_alloc(c, e, at) : ct_encoder_put_free(c, e, at)))
        return -1;
    if (CT_HAS(e, duration_ns) && ct_encoder_put_duration(c, e->duration_ns))
        return -1;
    c->records++;
    return 0;
}

static inline int ct_encoder_put(struct ct_encoder *c, const struct ct_event *e) {
    const struct ct_encoder_probe at = ct_encoder_probe(c, e);
    return ct_encoder_put_probed(c, e, &at);
}

// Writes the head of a column; `bytes` bytes of its stream follow. (A varint, the number of
// records, stands before the first column.)
static inline void ct_encoder_put_column_head(struct ct_out *out, unsigned column, uint32_t bytes) {
    ct_put_varint(out, column);
    ct_put_varint(out, CT_PACKED_COLUMNS >> column & 1 ? CT_PACKED : ct_field_coding(column));
    ct_put_u32(out, bytes);
}

// ---- plain sections -----------------------------------------------------------------------------
// FORMAT.md, section 3: a column of presence masks, then one column of values or differences for
// each field. Times are exact. For few events that lie in memory: no tables are needed, and the
// columns are written one after the other into one buffer.

static inline void ct_encode_plain_column(struct ct_out *o, unsigned field,
                                          const struct ct_event *events, size_t n) {
    const enum ct_coding coding = field ? ct_field_coding(field) : CT_VARINT;
    static const uint8_t zero[4];
    uint64_t last = 0;
    ct_put_varint(o, field);
    ct_put_varint(o, coding);
    uint8_t *length_at = o->at;
    ct_put_bytes(o, zero, 4);
    for (size_t i = 0; i < n && !o->bad; i++) {
        const uint64_t v = field ? ct_event_get(&events[i], field) : events[i].present;
        if (field && !(events[i].present >> field & 1))
            continue;
        ct_put_varint(o, coding == CT_DELTA ? ct_zigzag(v - last) : v);
        last = v;
    }
    ct_section_end(o, length_at);
}

// A whole EVENTS section.
static inline void ct_encode_plain(struct ct_out *o, const struct ct_event *events, size_t n) {
    uint64_t used = 1;
    for (size_t i = 0; i < n; i++)
        used |= events[i].present;
    uint8_t *length_at = ct_section_begin(o, CT_SECTION_EVENTS);
    ct_put_varint(o, n);
    for (unsigned f = 0; f < CT_FIELDS_END; f++)
        if (used >> f & 1)
            ct_encode_plain_column(o, f, events, n);
    ct_section_end(o, length_at);
}

#endif

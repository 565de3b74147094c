// SPDX-License-Identifier: Apache-2.0
// Events as columns of bytes: what both directions know, and the encoder. FORMAT.md, section 3, is the specification.
//
// The encoder's streams only ever grow at their ends, in pieces of memory that the caller provides, and nothing refers
// from one block to another. So a block may be cut between any two records: the bytes that the streams had then are a
// valid block of that many records. That is what lets a recorder keep the streams in a file that outlives the process.
// Nothing here allocates. The decoder is in columns_in.h; codec.h includes both.
#ifndef CUTRACE_COLUMNS_H
#define CUTRACE_COLUMNS_H

#include <cutrace/format/bytes.h>
#include <cutrace/format/event_match.h>
#include <cutrace/format/hot.h>

// ---- fields -----------------------------------------------------------------------------------

// Value of a field, widened; signed fields are sign-extended so that small negatives stay small.
static inline uint64_t ct_event_get(const struct ct_event *e, unsigned field) {
    switch (field) {
#define CT_FIELD(number, member, ctype, coding, json) \
    case number:                                      \
        return (uint64_t)e->member;
#include <cutrace/format/events.def>
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
#include <cutrace/format/events.def>
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
#include <cutrace/format/events.def>
    default:
        return CT_VARINT;
    }
}

// ---- what both directions know ------------------------------------------------------------------

#define CT_COLUMNS 56u // streams of a block

// Columns beside those of the fields.
enum ct_column {
    CT_COLUMN_TEMPLATE = 0,      // which template the record is made by
    CT_COLUMN_TEMPLATE_LOW = 40, // low byte of a large number
    CT_COLUMN_SHAPE,             // of new templates
    CT_COLUMN_TIME_HIGH,
    CT_COLUMN_TIME_MORE,
    CT_COLUMN_TIME_REST,
    CT_COLUMN_DURATION_HIGH,
    CT_COLUMN_DURATION_MORE,
    CT_COLUMN_FREE_ADDRESS,       // the address of a record that does not take
    CT_COLUMN_ADDRESS_LOW, // low byte of a large distance
    CT_COLUMN_ADDRESS_0,   // bytes of an address that is written out
    CT_COLUMN_ADDRESS_1,
    CT_COLUMN_ADDRESS_2,
    CT_COLUMN_ADDRESS_3,
    CT_COLUMN_ADDRESS_4, // its bits from 32 on
};
_Static_assert(CT_FIELDS_END <= 40 && CT_COLUMN_ADDRESS_4 == 53, "numbers of columns");

// Templates: 0 a new one, 1 a new one that gets the next number, then small numbers, then large ones with a low byte.
enum {
    CT_TEMPLATE_NEW,
    CT_TEMPLATE_NUMBERED,
    CT_TEMPLATE_FIRST,
    CT_TEMPLATE_WIDE = 192,
    CT_TEMPLATE_SMALL = CT_TEMPLATE_WIDE - CT_TEMPLATE_FIRST,
    CT_TEMPLATES = CT_TEMPLATE_SMALL + (256 - CT_TEMPLATE_WIDE) * 256,
    CT_SHAPES = 1024,
};

// The address of a record that takes: written out, the end of what was taken last, one of those freed last of this size,
// or by a distance in what was freed (one byte or two) or in the ends of what was taken.
enum {
    CT_ALLOC_CODE_FULL,
    CT_ALLOC_CODE_NEXT,
    CT_ALLOC_CODE_ROW,
    CT_ALLOC_CODE_FREED = 6,
    CT_ALLOC_CODE_FREED_WIDE = 150,
    CT_ALLOC_CODE_END = 200,
    CT_FREED_SMALL = CT_ALLOC_CODE_FREED_WIDE - CT_ALLOC_CODE_FREED,
    CT_FREED_MAX = CT_FREED_SMALL + (CT_ALLOC_CODE_END - CT_ALLOC_CODE_FREED_WIDE) * 256,
    CT_ENDS_MAX = (256 - CT_ALLOC_CODE_END) * 256,
};

// The address of any other record: written out, or by a distance in what was taken (one byte or two).
enum {
    CT_FREE_CODE_FULL,
    CT_FREE_CODE_NEAR,
    CT_FREE_CODE_WIDE = 192,
    CT_FREE_CODE_SMALL = CT_FREE_CODE_WIDE - CT_FREE_CODE_NEAR,
    CT_FREE_CODE_MAX = CT_FREE_CODE_SMALL + (256 - CT_FREE_CODE_WIDE) * 256,
};

// Time and duration: high byte of the number of ticks, with two escapes.
enum { CT_TICKS_EXACT = 254, CT_TICKS_MORE = 255 };

// The fields that a shape holds; a template is a shape with bytes and stack. All others have a value for each record.
struct ct_shape {
    uint64_t present; // of the whole event
    uint64_t context, stream, pool;
    uint32_t op, api, space, flags;
    int32_t result, device;
};

#define CT_SHAPE_FIELDS                                                             \
    (CT_BIT(op) | CT_BIT(api) | CT_BIT(result) | CT_BIT(device) | CT_BIT(context) | \
     CT_BIT(space) | CT_BIT(flags) | CT_BIT(stream) | CT_BIT(pool))
// Fields with streams of their own kind, those with one value for each record, and all.
#define CT_PACKED_FIELDS \
    (CT_BIT(t_ns) | CT_BIT(ptr) | CT_BIT(bytes) | CT_BIT(stack) | CT_BIT(duration_ns))
#define CT_CODED_FIELDS (CT_SHAPE_FIELDS | CT_PACKED_FIELDS)
#define CT_ALL_FIELDS ((UINT64_C(1) << CT_FIELDS_END) - 2)
#define CT_PLAIN_FIELDS (CT_ALL_FIELDS & ~CT_CODED_FIELDS)
#define CT_RARE_FIELDS \
    (CT_PLAIN_FIELDS & ~CT_BIT(thread)) // of most events, the thread is the only plain one
#define CT_PACKED_COLUMNS (CT_PACKED_FIELDS | UINT64_C(0x3fff) << CT_COLUMN_TEMPLATE_LOW | 1)
#define CT_KNOWN_COLUMNS (CT_ALL_FIELDS | CT_PACKED_COLUMNS)

CT_HOT int ct_event_allocates(const struct ct_event *e) {
    const uint64_t one = 1, takers = one << CT_OP_ALLOC | one << CT_OP_RESERVE | one << CT_OP_MAP |
                                     one << CT_OP_REGISTER | one << CT_OP_GRAPH_ALLOC |
                                     one << CT_OP_IPC_OPEN | one << CT_OP_BLOCK_ALLOC;
    return CT_HAS(e, op) && e->op < 64 && takers >> e->op & 1;
}

// Addresses that were given back, by size: the last four of each, the newest first. Sizes that fall into one row share it.
enum { CT_ROWS = 1024, CT_ROW = 4 };

CT_HOT unsigned ct_row_index(uint64_t bytes) {
    return (unsigned)((bytes * UINT64_C(0x9E3779B97F4A7C15)) >> 54);
}

CT_HOT unsigned ct_row_find(const uint64_t *row, uint64_t ptr) {
    return row[0] == ptr ? 0 : row[1] == ptr ? 1 : row[2] == ptr ? 2 : row[3] == ptr ? 3 : CT_ROW;
}
_Static_assert(CT_ROW == 4, "each is looked at");

CT_HOT void ct_row_remove(uint64_t *row, unsigned i) {
    for (; i + 1 < CT_ROW; i++)
        row[i] = row[i + 1];
    row[i] = 0;
}

CT_HOT void ct_row_push(uint64_t *row, uint64_t ptr) {
    for (unsigned i = CT_ROW - 1; i; i--)
        row[i] = row[i - 1];
    row[0] = ptr;
}

// A size as its number of trailing zeros and what is left of the odd number above them; two do not fit that.
enum { CT_SIZE_ZERO = 1 << 6 | 63, CT_SIZE_PLAIN = 2 << 6 | 63 };

CT_HOT uint64_t ct_size_encode(uint64_t bytes) {
    if (!bytes)
        return CT_SIZE_ZERO;
    const unsigned zeros = (unsigned)__builtin_ctzll(bytes);
    const uint64_t rest = bytes >> zeros >> 1;
    return rest >> 58 ? CT_SIZE_PLAIN : rest << 6 | zeros;
}

static inline uint64_t ct_size_decode(uint64_t code) {
    return code == CT_SIZE_ZERO ? 0 : ((code >> 6) << 1 | 1) << (code & 63);
}

// What PyTorch states of its pools with each block mostly follows from what it stated before: only the difference is written.
struct ct_reported {
    uint64_t allocated, reserved;
};

#define CT_REPORTED_DEVICES 65u // the last one: none of 0 to 63
#define CT_REPORTED_FIELDS (CT_BIT(reserved_bytes) | CT_BIT(allocated_bytes))

CT_HOT int ct_event_reports_totals(const struct ct_event *e) {
    return CT_HAS(e, op) && e->op - CT_OP_BLOCK_ALLOC <= CT_OP_BLOCK_OOM - CT_OP_BLOCK_ALLOC &&
           e->present & CT_REPORTED_FIELDS;
}

CT_HOT struct ct_reported *ct_reported_last(struct ct_reported *of, const struct ct_event *e) {
    const unsigned last = CT_REPORTED_DEVICES - 1;
    return &of[CT_HAS(e, device) && (unsigned)e->device < last ? (unsigned)e->device : last];
}

// What is allocated behind the event, if nothing else has happened.
CT_HOT uint64_t ct_reported_expected(const struct ct_reported *before, const struct ct_event *e) {
    const uint64_t bytes = CT_HAS(e, bytes) ? e->bytes : 0;
    return before->allocated + (e->op == CT_OP_BLOCK_ALLOC  ? bytes
                                : e->op == CT_OP_BLOCK_FREE ? 0 - bytes
                                                            : 0);
}

// ---- encoder ----------------------------------------------------------------------------------

#define CT_COLUMN_ROOM 16        // the least that a piece of memory for a stream must have
#define CT_COLUMN_HEAD_BYTES 20u // the most that ct_encoder_put_column_head writes

struct ct_encoder {
    // Where each column goes on; at == end == NULL as long as it is empty.
    struct ct_out stream[CT_COLUMNS];
    // Called when fewer than CT_COLUMN_ROOM bytes are left in `out`, or none: makes it point to new ones. 0, or -1 if there are none.
    int (*room)(void *user, unsigned column, struct ct_out *out);
    void *user;
    uint32_t records; // put since ct_encoder_begin
    // Time of the record that will follow the next one put, if the caller knows it; else 0, to which each put resets it.
    // Not to know it costs some bytes: a record that may share its tick with another one has its time written exactly.
    uint64_t next_ns;
    // working state
    struct ct_encoder_tables *tables;
    uint64_t tick_ns, tick;       // tick: of the record before
    uint64_t tick_inverse;        // 2^64 / tick_ns
    uint64_t taken_end;           // address behind what was taken last
    uint64_t last[CT_FIELDS_END]; // values of the columns that hold differences
    int timed;                    // there is a record before
    uint32_t stack;               // highest stack of a template
    struct ct_known_shape {
        struct ct_match like;
        unsigned number;
    } recent[8];                // by op: the shape of the last record
    uint32_t shapes, templates; // numbered
    uint32_t taken, freed;      // how many
    struct ct_reported stated[CT_REPORTED_DEVICES];
};

enum {
    CT_WAYS = 4, // of a set of the tables below
    CT_TEMPLATE_SETS = 4096,
    CT_ADDRESS_SETS = 2048,
    CT_END_SLOTS = 4096,
    CT_SHAPE_SLOTS = 2048,
    CT_ORDINALS = 65535, // what an address can remember
};

// Both tables have no place for everything: what is not in them is written out when it comes again, which is all the harm.
// Templates stay (the frequent ones come early), addresses make way for newer ones.
struct ct_encoder_tables {
    struct ct_known_template {
        uint64_t bytes;
        uint32_t stack;
        uint16_t shape;
        uint16_t number; // + 1; 0: no template
    } templates[CT_TEMPLATE_SETS][CT_WAYS];
    struct ct_known_address {
        uint64_t address;
        uint16_t taken, freed; // when it was, the last time: counted from 1; 0: never
        uint16_t row;          // of the size that was taken there
        uint16_t used;         // when it was looked for, in records
    } addresses[CT_ADDRESS_SETS][CT_WAYS];
    uint64_t ends
        [CT_END_SLOTS]; // of what was taken: address << 16 | when; one that does not fit that is not known
    struct ct_shape shapes[CT_SHAPES];
    uint16_t shape_at[CT_SHAPE_SLOTS]; // number + 1
    uint64_t rows[CT_ROWS][CT_ROW];
};

// Where a record looks into the tables: so that it can be fetched some records ahead.
struct ct_encoder_probe {
    struct ct_known_template *templates; // a set
    struct ct_known_address *addresses;  // likewise
    uint64_t *end;
};

// Bytes of the encoder's tables.
static inline size_t ct_encoder_memory_bytes(void) {
    return sizeof(struct ct_encoder_tables);
}

// Begins a block: all streams empty, no record. `memory` has ct_encoder_memory_bytes() bytes, aligned to 8, and is the encoder's
// until the next ct_encoder_begin. tick_ns: of times and durations (FORMAT.md).
static inline void ct_encoder_begin(struct ct_encoder *c, void *memory, uint64_t tick_ns) {
    const struct ct_encoder blank = {.room = c->room, .user = c->user};
    *c = blank;
    c->tick_ns = !tick_ns ? 1 : tick_ns < CT_MAX_TICK_NS ? tick_ns : CT_MAX_TICK_NS;
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

// A field with a value for each record, or of a shape.
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

// ---- encoder: templates

static inline void ct_shape_from_event(struct ct_shape *s, const struct ct_event *e, uint64_t present) {
    *s = (struct ct_shape){
        .present = present,
        .context = CT_HAS(e, context) ? e->context : 0,
        .stream = CT_HAS(e, stream) ? e->stream : 0,
        .pool = CT_HAS(e, pool) ? e->pool : 0,
        .op = CT_HAS(e, op) ? e->op : 0,
        .api = CT_HAS(e, api) ? e->api : 0,
        .space = CT_HAS(e, space) ? e->space : 0,
        .flags = CT_HAS(e, flags) ? e->flags : 0,
        .result = CT_HAS(e, result) ? e->result : 0,
        .device = CT_HAS(e, device) ? e->device : 0,
    };
}

// Whether it is the shape of the event.
static inline int ct_shape_matches(const struct ct_shape *s, const struct ct_event *e) {
#define CT_SAME(member) (!CT_HAS(s, member) || s->member == e->member)
    return s->present == (e->present & CT_ALL_FIELDS) && CT_SAME(op) && CT_SAME(api) &&
           CT_SAME(result) && CT_SAME(device) && CT_SAME(context) && CT_SAME(space) &&
           CT_SAME(flags) && CT_SAME(stream) && CT_SAME(pool);
#undef CT_SAME
}

// The same of a shape that was not the last one.
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

// Number of the shape of an event, or CT_SHAPES if there is none and no room for it.
CT_HOT unsigned ct_encoder_get_shape(struct ct_encoder *c, const struct ct_event *e, int *is_new) {
    struct ct_known_shape *recent = &c->recent[CT_HAS(e, op) ? e->op % 8 : 0];
    *is_new = 0;
    if (ct_match_test(&recent->like, e, CT_ALL_FIELDS))
        return recent->number;
    const unsigned number = ct_encoder_find_shape(c, e, is_new);
    if (number < CT_SHAPES) {
        recent->number = number;
        ct_match_set(&recent->like, e, CT_ALL_FIELDS, CT_SHAPE_FIELDS);
    }
    return number;
}

// A template is written out: shape, size and stack.
CT_HOT int ct_encoder_define_template(struct ct_encoder *c, const struct ct_event *e, unsigned shape,
                             int new_shape) {
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
    return ct_encoder_put_byte(c, CT_COLUMN_TEMPLATE, CT_TEMPLATE_WIDE + (number >> 8)) ||
                   ct_encoder_put_byte(c, CT_COLUMN_TEMPLATE_LOW, number)
               ? -1
               : 0;
}

// A template that is known goes by its number. Another one is written out, and remembered if its set has a place.
CT_HOT int ct_encoder_put_template(struct ct_encoder *c, const struct ct_event *e,
                               struct ct_known_template *set) {
    int new_shape;
    const uint64_t bytes = CT_HAS(e, bytes) ? e->bytes : 0;
    const uint32_t stack = CT_HAS(e, stack) ? e->stack : 0;
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

// ---- encoder: addresses

// Of the addresses of a set, the one that was not looked for for the longest time makes room.
static inline struct ct_known_address *ct_encoder_replace_oldest(struct ct_known_address *set,
                                                              uint64_t address, uint16_t now) {
    struct ct_known_address *oldest = set;
    for (unsigned i = 1; i < CT_WAYS; i++)
        if ((uint16_t)(now - set[i].used) > (uint16_t)(now - oldest->used))
            oldest = &set[i];
    *oldest = (struct ct_known_address){.address = address, .used = now};
    return oldest;
}

// What is known of an address, from now on if it was not.
CT_HOT struct ct_known_address *ct_encoder_find_address(const struct ct_encoder *c,
                                                   struct ct_known_address *set, uint64_t address) {
    const uint16_t now = (uint16_t)c->records;
    // Which one it is cannot be guessed, so that nothing branches on it.
    unsigned at = set[1].address == address ? 1 : 0;
    at = set[2].address == address ? 2 : at;
    at = set[3].address == address ? 3 : at;
    struct ct_known_address *a = &set[at];
    if (a->address != address)
        return ct_encoder_replace_oldest(set, address, now);
    a->used = now;
    return a;
}
_Static_assert(CT_WAYS == 4, "each is looked at");

CT_HOT uint64_t *ct_encoder_end_slot(const struct ct_encoder *c, uint64_t address) {
    return &c->tables->ends[(ct_encoder_hash(address, 0) >> 16) % CT_END_SLOTS];
}

// Of what was taken, how long ago what ended at the address; 0: that is not known.
CT_HOT unsigned ct_encoder_end_distance(const struct ct_encoder *c, uint64_t address) {
    const uint64_t known = *ct_encoder_end_slot(c, address);
    return known && known >> 16 == address ? c->taken + 1 - (known & UINT16_MAX) : 0;
}

// An address that nothing is known of: its bytes.
static inline int ct_encoder_put_full_address(struct ct_encoder *c, uint64_t ptr) {
    const uint64_t high = ptr >> 32, last = c->last[CT_FIELD_ptr];
    c->last[CT_FIELD_ptr] = high;
    for (unsigned i = 0; i < 4; i++)
        if (ct_encoder_put_byte(c, CT_COLUMN_ADDRESS_0 + i, ptr >> (8 * i)))
            return -1;
    return ct_encoder_put_varint(c, CT_COLUMN_ADDRESS_4, ct_zigzag(high - last));
}

// A distance: codes from `first` on for the small ones, from `wide` on with a low byte for the others.
CT_HOT int ct_encoder_put_distance(struct ct_encoder *c, unsigned column, unsigned first, unsigned wide,
                               unsigned d) {
    const unsigned small = wide - first;
    if (--d < small)
        return ct_encoder_put_byte(c, column, first + d);
    d -= small;
    return ct_encoder_put_byte(c, column, wide + (d >> 8)) ||
                   ct_encoder_put_byte(c, CT_COLUMN_ADDRESS_LOW, d)
               ? -1
               : 0;
}

CT_HOT int ct_encoder_put_alloc_address(struct ct_encoder *c, uint64_t ptr, uint64_t *row,
                            const struct ct_known_address *a) {
    const unsigned i = ct_row_find(row, ptr);
    if (i < CT_ROW) {
        ct_row_remove(row, i);
        return ct_encoder_put_byte(c, CT_FIELD_ptr, CT_ALLOC_CODE_ROW + i);
    }
    if (ptr == c->taken_end)
        return ct_encoder_put_byte(c, CT_FIELD_ptr, CT_ALLOC_CODE_NEXT);
    if (a->freed && c->freed + 1 - a->freed <= CT_FREED_MAX)
        return ct_encoder_put_distance(c, CT_FIELD_ptr, CT_ALLOC_CODE_FREED, CT_ALLOC_CODE_FREED_WIDE,
                                   c->freed + 1 - a->freed);
    const unsigned end_ago = ct_encoder_end_distance(c, ptr);
    if (end_ago && end_ago <= CT_ENDS_MAX)
        return ct_encoder_put_distance(c, CT_FIELD_ptr, CT_ALLOC_CODE_END, CT_ALLOC_CODE_END, end_ago);
    return ct_encoder_put_byte(c, CT_FIELD_ptr, CT_ALLOC_CODE_FULL) || ct_encoder_put_full_address(c, ptr) ? -1 : 0;
}

CT_HOT int ct_encoder_put_alloc(struct ct_encoder *c, const struct ct_event *e,
                           const struct ct_encoder_probe *at) {
    const uint64_t bytes = CT_HAS(e, bytes) ? e->bytes : 0, end = e->ptr + bytes;
    const unsigned row = ct_row_index(bytes);
    struct ct_known_address *a = ct_encoder_find_address(c, at->addresses, e->ptr);
    if (ct_encoder_put_alloc_address(c, e->ptr, c->tables->rows[row], a))
        return -1;
    c->taken_end = end;
    if (++c->taken <= CT_ORDINALS) {
        a->taken = (uint16_t)c->taken;
        a->row = (uint16_t)row;
        if (at->end && !(end >> 48))
            *at->end = end << 16 | c->taken;
    }
    return 0;
}

CT_HOT int ct_encoder_put_free(struct ct_encoder *c, const struct ct_event *e,
                           const struct ct_encoder_probe *at) {
    struct ct_known_address *a = ct_encoder_find_address(c, at->addresses, e->ptr);
    int rc;
    if (a->taken && c->taken + 1 - a->taken <= CT_FREE_CODE_MAX) {
        rc = ct_encoder_put_distance(c, CT_COLUMN_FREE_ADDRESS, CT_FREE_CODE_NEAR, CT_FREE_CODE_WIDE,
                                 c->taken + 1 - a->taken);
        ct_row_push(c->tables->rows[a->row], e->ptr);
    } else {
        rc = ct_encoder_put_byte(c, CT_COLUMN_FREE_ADDRESS, CT_FREE_CODE_FULL) || ct_encoder_put_full_address(c, e->ptr) ? -1
                                                                                                : 0;
    }
    if (++c->freed <= CT_ORDINALS)
        a->freed = (uint16_t)c->freed;
    return rc;
}

// ---- encoder: times

// ns / tick_ns by a multiplication: at most one less. What is beyond that tick goes to *rest.
CT_HOT uint64_t ct_encoder_to_ticks(const struct ct_encoder *c, uint64_t ns, uint64_t *rest) {
    __extension__ typedef unsigned __int128 wide;
    const uint64_t ticks = (uint64_t)((wide)ns * c->tick_inverse >> 64);
    const uint64_t beyond = ns - ticks * c->tick_ns;
    *rest = beyond < c->tick_ns ? beyond : beyond - c->tick_ns;
    return ticks + (beyond >= c->tick_ns);
}

CT_HOT int ct_encoder_put_ticks(struct ct_encoder *c, unsigned low, unsigned high, unsigned high_byte,
                            uint64_t low_byte) {
    return ct_encoder_put_byte(c, high, high_byte) || ct_encoder_put_byte(c, low, low_byte) ? -1 : 0;
}

// A time that is far from the one before, or behind it, or the first one; or of ticks that are long.
CT_COLD int ct_encoder_put_far_time(struct ct_encoder *c, uint64_t ticks, int exact, uint64_t rest) {
    int rc;
    // (Where it steps back, the ticks are very many.)
    if (c->timed && ticks < CT_TICKS_EXACT << 8 && (!exact || !ticks))
        rc = ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, (unsigned)(ticks >> 8), ticks);
    else if (c->timed && ticks < 256)
        rc = ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, CT_TICKS_EXACT, ticks);
    else
        rc = ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH, CT_TICKS_MORE,
                              (unsigned)exact) ||
             ct_encoder_put_varint(c, CT_COLUMN_TIME_MORE, ct_zigzag(ticks));
    c->timed = 1;
    return rc || (exact && ct_encoder_put_varint(c, CT_COLUMN_TIME_REST, rest)) ? -1 : 0;
}

// A record that shares its tick with its neighbours, or may do so, has its time exactly: then records in the order of time
// keep it, times that differ keep differing, and one that is rounded down is alone in its tick. Which it is cannot be guessed,
// so that nothing branches on it: the rest is written in any case, but counts only where the time is exact.
CT_HOT int ct_encoder_put_time(struct ct_encoder *c, uint64_t t_ns, uint64_t next_ns) {
    struct ct_out *o = &c->stream[CT_COLUMN_TIME_REST];
    uint64_t rest;
    const uint64_t tick = ct_encoder_to_ticks(c, t_ns, &rest), ticks = tick - c->tick;
    const int alone =
        (ticks != 0) & (next_ns != 0) & (next_ns - t_ns + rest >= c->tick_ns) & (c->timed != 0);
    const int exact = !alone & (c->tick_ns > 1);
    c->tick = tick;
    if (__builtin_expect(ticks >= 256 || rest >= 0x80 || o->at == o->end || !c->timed, 0))
        return ct_encoder_put_far_time(c, ticks, exact, rest);
    *o->at = (uint8_t)rest;
    o->at += exact;
    return ct_encoder_put_ticks(c, CT_FIELD_t_ns, CT_COLUMN_TIME_HIGH,
                            (exact & (ticks != 0)) ? CT_TICKS_EXACT : 0, ticks);
}

CT_HOT int ct_encoder_put_duration(struct ct_encoder *c, uint64_t ns) {
    uint64_t rest;
    const uint64_t ticks = ct_encoder_to_ticks(c, ns, &rest);
    if (ticks < CT_TICKS_MORE << 8)
        return ct_encoder_put_ticks(c, CT_FIELD_duration_ns, CT_COLUMN_DURATION_HIGH,
                                (unsigned)(ticks >> 8), ticks);
    return ct_encoder_put_ticks(c, CT_FIELD_duration_ns, CT_COLUMN_DURATION_HIGH, CT_TICKS_MORE, 0) ||
                   ct_encoder_put_varint(c, CT_COLUMN_DURATION_MORE, ticks)
               ? -1
               : 0;
}

// ---- encoder: what PyTorch states

CT_HOT int ct_encoder_put_reported(struct ct_encoder *c, const struct ct_event *e) {
    struct ct_reported *before = ct_reported_last(c->stated, e);
    if (CT_HAS(e, reserved_bytes)) {
        const uint64_t differs = e->reserved_bytes - before->reserved;
        before->reserved = e->reserved_bytes;
        if (ct_encoder_put_varint(c, CT_FIELD_reserved_bytes, ct_zigzag(differs)))
            return -1;
    }
    if (CT_HAS(e, allocated_bytes)) {
        const uint64_t differs = e->allocated_bytes - ct_reported_expected(before, e);
        before->allocated = e->allocated_bytes;
        if (ct_encoder_put_varint(c, CT_FIELD_allocated_bytes, ct_zigzag(differs)))
            return -1;
    }
    return 0;
}

// The fields with a value for each record, without the thread.
CT_HOT int ct_encoder_put_rare(struct ct_encoder *c, const struct ct_event *e) {
    uint64_t rare = e->present & CT_RARE_FIELDS;
    if (ct_event_reports_totals(e)) {
        rare &= ~CT_REPORTED_FIELDS;
        if (ct_encoder_put_reported(c, e))
            return -1;
    }
    return rare && ct_encoder_put_fields(c, e, rare) ? -1 : 0;
}

// Where a record looks into the tables, and fetches that. Good until the next ct_encoder_begin with other memory.
CT_HOT struct ct_encoder_probe ct_encoder_probe(const struct ct_encoder *c,
                                              const struct ct_event *e) {
    const uint64_t bytes = CT_HAS(e, bytes) ? e->bytes : 0;
    const uint32_t stack = CT_HAS(e, stack) ? e->stack : 0;
    struct ct_encoder_tables *t = c->tables;
    struct ct_encoder_probe at = {
        t->templates[ct_encoder_hash(ct_encoder_hash(bytes, stack), e->op) % CT_TEMPLATE_SETS], NULL,
        NULL};
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

// Appends a record, which was looked for: 0, or -1 if there was no room; the block then ends with the record before, at the
// lengths that the streams had behind it.
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

// The head of a column in its section; `bytes` of the stream follow it. (Before the first column: varint number of records.)
static inline void ct_encoder_put_column_head(struct ct_out *out, unsigned column, uint32_t bytes) {
    ct_put_varint(out, column);
    ct_put_varint(out, CT_PACKED_COLUMNS >> column & 1 ? CT_PACKED : ct_field_coding(column));
    ct_put_u32(out, bytes);
}

// ---- plain columns ------------------------------------------------------------------------------
// As in version 1: a column of masks, then one of values or differences for each field. Times are exact. For few events
// that lie in memory: it needs no tables, and the columns go one after the other into one place.

static inline void ct_encode_plain_column(struct ct_out *o, unsigned field, const struct ct_event *events,
                                 size_t n) {
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

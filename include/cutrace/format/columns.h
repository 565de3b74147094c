// SPDX-License-Identifier: Apache-2.0
// Columns of an EVENTS section: the numbers and rules that the encoder (encode.h) and the decoder
// (decode.h) share. FORMAT.md, section 3, is the specification. Nothing here allocates.
#ifndef CUTRACE_COLUMNS_H
#define CUTRACE_COLUMNS_H

#include <cutrace/format/assert.h>
#include <cutrace/format/bytes.h>
#include <cutrace/format/hot.h>

// ---- fields -------------------------------------------------------------------------------------

// Value of a field, widened. Signed fields are sign-extended, so that small negative values stay
// small.
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

// ---- numbers of columns and codes ---------------------------------------------------------------

#define CT_COLUMNS 56u // streams of a packed section

// Columns beside those of the fields.
enum ct_column {
    CT_COLUMN_TEMPLATE = 0,      // number of the record's template
    CT_COLUMN_TEMPLATE_LOW = 40, // low byte of a large template number
    CT_COLUMN_SHAPE,             // shapes of new templates
    CT_COLUMN_TIME_HIGH,
    CT_COLUMN_TIME_MORE,
    CT_COLUMN_TIME_REST,
    CT_COLUMN_DURATION_HIGH,
    CT_COLUMN_DURATION_MORE,
    CT_COLUMN_FREE_ADDRESS, // address of a record that allocates none
    CT_COLUMN_ADDRESS_LOW,  // low byte of a large distance
    CT_COLUMN_ADDRESS_0,    // lowest byte of an address that is written in full
    CT_COLUMN_ADDRESS_1,
    CT_COLUMN_ADDRESS_2,
    CT_COLUMN_ADDRESS_3,
    CT_COLUMN_ADDRESS_4, // bits 32 and up of such an address
};
_Static_assert(CT_FIELDS_END <= 40 && CT_COLUMN_ADDRESS_4 == 53, "numbers of columns");

// Codes of a template: NEW defines one without a number, NUMBERED defines the next number. From
// FIRST on a code is a small number; from WIDE on it is the high part of a number that has a low
// byte, too.
enum {
    CT_TEMPLATE_NEW,
    CT_TEMPLATE_NUMBERED,
    CT_TEMPLATE_FIRST,
    CT_TEMPLATE_WIDE = 192,
    CT_TEMPLATE_SMALL = CT_TEMPLATE_WIDE - CT_TEMPLATE_FIRST,
    CT_TEMPLATES = CT_TEMPLATE_SMALL + (256 - CT_TEMPLATE_WIDE) * 256,
    CT_SHAPES = 1024,
};

// Codes of an address that a record allocates: written in full; the end of the last allocation; a
// recently freed address of the same size (ROW); a distance into the freed addresses (one byte, or
// WIDE: two); a distance into the ends of allocations.
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

// Codes of the address of any other record: written in full, or a distance into the allocated
// addresses (one byte, or WIDE: two).
enum {
    CT_FREE_CODE_FULL,
    CT_FREE_CODE_NEAR,
    CT_FREE_CODE_WIDE = 192,
    CT_FREE_CODE_SMALL = CT_FREE_CODE_WIDE - CT_FREE_CODE_NEAR,
    CT_FREE_CODE_MAX = CT_FREE_CODE_SMALL + (256 - CT_FREE_CODE_WIDE) * 256,
};

// Values of the high byte of times and durations that are no high byte: EXACT, the time is not
// rounded; MORE, the number of ticks is a varint.
enum { CT_TICKS_EXACT = 254, CT_TICKS_MORE = 255 };

// ---- shapes -------------------------------------------------------------------------------------

// The fields that most records repeat. A template is a shape with bytes and stack; all other fields
// have a value for each record.
struct ct_shape {
    uint64_t present; // mask of the whole event
    uint64_t context, stream, pool;
    uint32_t op, api, space, flags;
    int32_t result, device;
};

#define CT_SHAPE_FIELDS                                                             \
    (CT_BIT(op) | CT_BIT(api) | CT_BIT(result) | CT_BIT(device) | CT_BIT(context) | \
     CT_BIT(space) | CT_BIT(flags) | CT_BIT(stream) | CT_BIT(pool))
// Fields whose columns have a coding of their own.
#define CT_PACKED_FIELDS \
    (CT_BIT(t_ns) | CT_BIT(ptr) | CT_BIT(bytes) | CT_BIT(stack) | CT_BIT(duration_ns))
#define CT_CODED_FIELDS (CT_SHAPE_FIELDS | CT_PACKED_FIELDS)
#define CT_ALL_FIELDS ((UINT64_C(1) << CT_FIELDS_END) - 2)
// Fields with one value for each record. Most events have none of them but the thread.
#define CT_PLAIN_FIELDS (CT_ALL_FIELDS & ~CT_CODED_FIELDS)
#define CT_RARE_FIELDS (CT_PLAIN_FIELDS & ~CT_BIT(thread))
#define CT_PACKED_COLUMNS (CT_PACKED_FIELDS | UINT64_C(0x3fff) << CT_COLUMN_TEMPLATE_LOW | 1)
#define CT_KNOWN_COLUMNS (CT_ALL_FIELDS | CT_PACKED_COLUMNS)

static inline void ct_shape_from_event(struct ct_shape *s, const struct ct_event *e,
                                       uint64_t present) {
    *s = (struct ct_shape){
        .present = present,
        .context = CT_GET(e, context),
        .stream = CT_GET(e, stream),
        .pool = CT_GET(e, pool),
        .op = CT_GET(e, op),
        .api = CT_GET(e, api),
        .space = CT_GET(e, space),
        .flags = CT_GET(e, flags),
        .result = CT_GET(e, result),
        .device = CT_GET(e, device),
    };
}

static inline int ct_shape_matches(const struct ct_shape *s, const struct ct_event *e) {
#define CT_SAME(member) (!CT_HAS(s, member) || s->member == e->member)
    return s->present == (e->present & CT_ALL_FIELDS) && CT_SAME(op) && CT_SAME(api) &&
           CT_SAME(result) && CT_SAME(device) && CT_SAME(context) && CT_SAME(space) &&
           CT_SAME(flags) && CT_SAME(stream) && CT_SAME(pool);
#undef CT_SAME
}

// ---- addresses and sizes ------------------------------------------------------------------------

// Whether the record's address is one that it allocates. Any other record with an address refers to
// an earlier one.
CT_HOT int ct_event_allocates(const struct ct_event *e) {
    const uint64_t one = 1, ops = one << CT_OP_ALLOC | one << CT_OP_RESERVE | one << CT_OP_MAP |
                                  one << CT_OP_REGISTER | one << CT_OP_GRAPH_ALLOC |
                                  one << CT_OP_IPC_OPEN | one << CT_OP_BLOCK_ALLOC;
    return CT_HAS(e, op) && e->op < 64 && ops >> e->op & 1;
}

// Recently freed addresses by size: a row has the last four of its sizes, the newest first.
// Allocators reuse the address freed last, so most allocations find theirs here.
enum { CT_ROWS = 1024, CT_ROW = 4 };

CT_HOT unsigned ct_row_index(uint64_t bytes) {
    return (unsigned)((bytes * UINT64_C(0x9E3779B97F4A7C15)) >> 54);
}

// Place of an address in a row; CT_ROW if the row does not have it.
CT_HOT unsigned ct_row_find(const uint64_t *row, uint64_t ptr) {
    _Static_assert(CT_ROW == 4, "each entry is compared");
    if (row[0] == ptr)
        return 0;
    if (row[1] == ptr)
        return 1;
    if (row[2] == ptr)
        return 2;
    return row[3] == ptr ? 3 : CT_ROW;
}

CT_HOT void ct_row_remove(uint64_t *row, unsigned i) {
    CT_ASSERT(i < CT_ROW);
    for (; i + 1 < CT_ROW; i++)
        row[i] = row[i + 1];
    row[i] = 0;
}

CT_HOT void ct_row_push(uint64_t *row, uint64_t ptr) {
    for (unsigned i = CT_ROW - 1; i; i--)
        row[i] = row[i - 1];
    row[0] = ptr;
}

// A size is coded as its number of trailing zeros and the odd number above them. ZERO and PLAIN
// (the size follows) are codes that no such pair has.
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

// ---- totals that PyTorch reports ----------------------------------------------------------------

// PyTorch reports its totals with each block. They mostly follow from the totals before and the
// block's size, so only the difference to the expected value is written.
struct ct_reported {
    uint64_t allocated, reserved;
};

#define CT_REPORTED_DEVICES 65u // the last one: any device but 0 to 63
#define CT_REPORTED_FIELDS (CT_BIT(reserved_bytes) | CT_BIT(allocated_bytes))

CT_HOT int ct_event_reports_totals(const struct ct_event *e) {
    return CT_HAS(e, op) && e->op - CT_OP_BLOCK_ALLOC <= CT_OP_BLOCK_OOM - CT_OP_BLOCK_ALLOC &&
           e->present & CT_REPORTED_FIELDS;
}

// The last report of the event's device.
CT_HOT struct ct_reported *ct_reported_last(struct ct_reported *of, const struct ct_event *e) {
    const unsigned last = CT_REPORTED_DEVICES - 1;
    return &of[CT_HAS(e, device) && (unsigned)e->device < last ? (unsigned)e->device : last];
}

// What PyTorch has allocated after the event, if the event is all that happened since the last
// report.
CT_HOT uint64_t ct_reported_expected(const struct ct_reported *last, const struct ct_event *e) {
    const uint64_t bytes = CT_GET(e, bytes);
    if (e->op == CT_OP_BLOCK_ALLOC)
        return last->allocated + bytes;
    return e->op == CT_OP_BLOCK_FREE ? last->allocated - bytes : last->allocated;
}

#endif

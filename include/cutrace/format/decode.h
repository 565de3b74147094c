// SPDX-License-Identifier: Apache-2.0
// Events from columns of bytes: the decoder. FORMAT.md, section 3, is the specification.
//
// Whatever the bytes are, nothing is read or written beyond the section and the memory that the caller lends, and each
// call of ct_decoder_next takes a bounded time. Nothing here allocates.
#ifndef CUTRACE_COLUMNS_IN_H
#define CUTRACE_COLUMNS_IN_H

#include <cutrace/format/encode.h>

enum { CT_DECODER_RING = 32768 }; // addresses that a distance may reach
_Static_assert((int)CT_FREE_CODE_MAX < (int)CT_DECODER_RING && (int)CT_FREED_MAX < (int)CT_DECODER_RING &&
                   (int)CT_ENDS_MAX < (int)CT_DECODER_RING,
               "every code stays within the ring");

struct ct_decoder_tables {
    struct {
        uint64_t bytes;
        uint32_t stack, shape;
    } templates[CT_TEMPLATES];
    struct ct_shape shapes[CT_SHAPES];
    struct {
        uint64_t ptr, end;
        uint32_t row;
    } taken[CT_DECODER_RING];
    uint64_t freed[CT_DECODER_RING];
    uint64_t rows[CT_ROWS][CT_ROW];
    struct ct_reported stated[CT_REPORTED_DEVICES];
};

// Bytes of the memory that a reader lends.
static inline size_t ct_decoder_memory_bytes(void) {
    return sizeof(struct ct_decoder_tables);
}

// Reads the records of an EVENTS section in order.
struct ct_decoder {
    void
        *memory; // ct_decoder_memory_bytes() bytes, aligned to 8, lent by the caller before ct_decoder_open
    uint64_t left;  // records not read yet
    uint64_t known; // columns that the section has
    uint64_t tick_ns;
    int exact; // whether the time of the record that was read last is exact, and not rounded down to its tick
    int bad; // a column has ended too early
    struct {
        struct ct_in in;
        uint64_t last;
        enum ct_coding coding;
    } column[64];
    // of packed columns
    uint64_t tick, taken_end;
    uint32_t stack, shapes, templates, taken, freed;
    struct ct_shape shape; // the last one that has no number
};

// Which columns there are, and what they are coded by. Those of unknown numbers are skipped.
static inline int ct_decoder_read_columns(struct ct_decoder *r, struct ct_in *section) {
    while (section->at < section->end) {
        const uint64_t field = ct_get_varint(section);
        const uint64_t coding = ct_get_varint(section);
        const uint32_t n = ct_get_u32(section);
        const struct ct_in bytes = ct_get_slice(section, n);
        if (section->bad || coding > CT_PACKED)
            return -1;
        if (field >= 64)
            continue;
        if (r->known >> field & 1)
            return -1;
        r->known |= UINT64_C(1) << field;
        r->column[field].in = bytes;
        r->column[field].coding = (enum ct_coding)coding;
    }
    return section->bad ? -1 : 0;
}

static inline uint64_t ct_decoder_get_varint(struct ct_decoder *r, unsigned column) {
    const uint64_t v = ct_get_varint(&r->column[column].in);
    r->bad |= r->column[column].in.bad;
    return v;
}

static inline unsigned ct_decoder_get_byte(struct ct_decoder *r, unsigned column) {
    struct ct_in *in = &r->column[column].in;
    if (in->at < in->end)
        return *in->at++;
    r->bad = 1;
    return 0;
}

// 0, or -1 if the section is malformed.
static inline int ct_decoder_open(struct ct_decoder *r, struct ct_in section) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    uint64_t packed = 0;
    *r = (struct ct_decoder){.memory = t, .tick_ns = 1, .exact = 1};
    r->left = ct_get_varint(&section);
    if (ct_decoder_read_columns(r, &section) || r->left > CT_MAX_EVENTS || (r->left && !(r->known & 1)))
        return -1;
    for (unsigned f = 0; f < 64; f++)
        packed |= (uint64_t)(r->column[f].coding == CT_PACKED) << f;
    if (!packed)
        return 0;
    if (!t || (r->known & CT_KNOWN_COLUMNS & (packed ^ CT_PACKED_COLUMNS)))
        return -1;
    r->tick_ns = ct_decoder_get_varint(r, CT_COLUMN_TIME_MORE);
    memset(t->rows, 0, sizeof t->rows);
    memset(t->stated, 0, sizeof t->stated);
    return r->bad || !r->tick_ns || r->tick_ns > CT_MAX_TICK_NS ? -1 : 0;
}

static inline uint64_t ct_decoder_get_field(struct ct_decoder *r, unsigned field) {
    uint64_t v = ct_decoder_get_varint(r, field);
    if (r->column[field].coding == CT_DELTA)
        v = r->column[field].last += ct_unzigzag(v);
    return v;
}

// The values of the fields of a mask. Those that this version does not know are passed over.
static inline void ct_decoder_get_fields(struct ct_decoder *r, struct ct_event *e, uint64_t fields) {
    for (; fields; fields &= fields - 1) {
        const unsigned field = (unsigned)__builtin_ctzll(fields);
        const uint64_t v = ct_decoder_get_field(r, field);
        if (field < CT_FIELDS_END)
            ct_event_set(e, field, v);
    }
}

// ---- decoder: templates

static inline void ct_decoder_apply_shape(struct ct_event *e, const struct ct_shape *s) {
    e->present = s->present;
    e->context = s->context;
    e->stream = s->stream;
    e->pool = s->pool;
    e->op = s->op;
    e->api = s->api;
    e->space = s->space;
    e->flags = s->flags;
    e->result = s->result;
    e->device = s->device;
}

// A shape that is written out gets the next number, if there is one left. Its number, or CT_SHAPES: then it is in r->shape.
static inline unsigned ct_decoder_get_shape(struct ct_decoder *r) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    const uint64_t code = ct_decoder_get_varint(r, CT_COLUMN_SHAPE);
    struct ct_event e = {.present = 0};
    if (code) {
        r->bad |= code > r->shapes;
        return r->bad ? 0 : (unsigned)code - 1;
    }
    const uint64_t present = ct_decoder_get_varint(r, CT_COLUMN_SHAPE);
    if (present & 1 || present >> CT_COLUMN_TEMPLATE_LOW) {
        r->bad = 1;
        return 0;
    }
    ct_decoder_get_fields(r, &e, present & CT_SHAPE_FIELDS);
    ct_shape_from_event(&r->shape, &e, present);
    if (r->shapes == CT_SHAPES)
        return CT_SHAPES;
    t->shapes[r->shapes] = r->shape;
    return r->shapes++;
}

// A template that is written out. The event gets its shape, size and stack.
static inline void ct_decoder_define_template(struct ct_decoder *r, struct ct_event *e, int numbered) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    const unsigned shape = ct_decoder_get_shape(r);
    if (r->bad)
        return;
    ct_decoder_apply_shape(e, shape == CT_SHAPES ? &r->shape : &t->shapes[shape]);
    e->bytes = 0;
    if (CT_HAS(e, bytes)) {
        const uint64_t code = ct_decoder_get_varint(r, CT_FIELD_bytes);
        e->bytes = code == CT_SIZE_PLAIN ? ct_decoder_get_varint(r, CT_FIELD_bytes) : ct_size_decode(code);
    }
    e->stack = 0;
    if (CT_HAS(e, stack)) {
        e->stack = r->stack + 1 - (uint32_t)ct_decoder_get_varint(r, CT_FIELD_stack);
        r->stack = e->stack > r->stack ? e->stack : r->stack;
    }
    if (!numbered)
        return;
    if (shape == CT_SHAPES || r->templates == CT_TEMPLATES) {
        r->bad = 1;
        return;
    }
    t->templates[r->templates].bytes = e->bytes;
    t->templates[r->templates].stack = e->stack;
    t->templates[r->templates++].shape = shape;
}

static inline void ct_decoder_get_template(struct ct_decoder *r, struct ct_event *e) {
    const struct ct_decoder_tables *t = (const struct ct_decoder_tables *)r->memory;
    unsigned number = ct_decoder_get_byte(r, CT_COLUMN_TEMPLATE);
    if (number < CT_TEMPLATE_FIRST) {
        if (!r->bad)
            ct_decoder_define_template(r, e, number == CT_TEMPLATE_NUMBERED);
        return;
    }
    if (number >= CT_TEMPLATE_WIDE)
        number = CT_TEMPLATE_WIDE +
                 ((number - CT_TEMPLATE_WIDE) << 8 | ct_decoder_get_byte(r, CT_COLUMN_TEMPLATE_LOW));
    number -= CT_TEMPLATE_FIRST;
    if (number >= r->templates) {
        r->bad = 1;
        return;
    }
    ct_decoder_apply_shape(e, &t->shapes[t->templates[number].shape]);
    e->bytes = t->templates[number].bytes;
    e->stack = t->templates[number].stack;
}

// ---- decoder: addresses

static inline uint64_t ct_decoder_get_full_address(struct ct_decoder *r) {
    uint64_t low = 0;
    for (unsigned i = 0; i < 4; i++)
        low |= (uint64_t)ct_decoder_get_byte(r, CT_COLUMN_ADDRESS_0 + i) << (8 * i);
    r->column[CT_FIELD_ptr].last += ct_unzigzag(ct_decoder_get_varint(r, CT_COLUMN_ADDRESS_4));
    return r->column[CT_FIELD_ptr].last << 32 | low;
}

// A distance, as ct_encoder_put_distance writes it, to one of `count` things: what is `distance` before the next one. Behind
// the last check it is within the ring, because no code says more than CT_DECODER_RING.
static inline unsigned ct_decoder_get_distance(struct ct_decoder *r, unsigned code, unsigned first,
                                          unsigned wide, unsigned count) {
    unsigned d = code - first + 1;
    if (code >= wide)
        d = wide - first + 1 + ((code - wide) << 8 | ct_decoder_get_byte(r, CT_COLUMN_ADDRESS_LOW));
    if (d > count) {
        r->bad = 1;
        return 0;
    }
    return (count - d) % CT_DECODER_RING;
}

static inline void ct_decoder_get_alloc_address(struct ct_decoder *r, struct ct_event *e) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    const unsigned code = ct_decoder_get_byte(r, CT_FIELD_ptr), row = ct_row_index(e->bytes);
    if (code == CT_ALLOC_CODE_FULL) {
        e->ptr = ct_decoder_get_full_address(r);
    } else if (code == CT_ALLOC_CODE_NEXT) {
        e->ptr = r->taken_end;
    } else if (code < CT_ALLOC_CODE_FREED) {
        e->ptr = t->rows[row][code - CT_ALLOC_CODE_ROW];
        ct_row_remove(t->rows[row], code - CT_ALLOC_CODE_ROW);
    } else if (code < CT_ALLOC_CODE_END) {
        e->ptr =
            t->freed[ct_decoder_get_distance(r, code, CT_ALLOC_CODE_FREED, CT_ALLOC_CODE_FREED_WIDE, r->freed)];
    } else {
        e->ptr = t->taken[ct_decoder_get_distance(r, code, CT_ALLOC_CODE_END, CT_ALLOC_CODE_END, r->taken)].end;
    }
    r->taken_end = e->ptr + e->bytes;
    t->taken[r->taken % CT_DECODER_RING].ptr = e->ptr;
    t->taken[r->taken % CT_DECODER_RING].end = r->taken_end;
    t->taken[r->taken++ % CT_DECODER_RING].row = row;
}

static inline void ct_decoder_get_free_address(struct ct_decoder *r, struct ct_event *e) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    const unsigned code = ct_decoder_get_byte(r, CT_COLUMN_FREE_ADDRESS);
    if (code == CT_FREE_CODE_FULL) {
        e->ptr = ct_decoder_get_full_address(r);
    } else {
        const unsigned at = ct_decoder_get_distance(r, code, CT_FREE_CODE_NEAR, CT_FREE_CODE_WIDE, r->taken);
        if (r->bad)
            return;
        e->ptr = t->taken[at].ptr;
        ct_row_push(t->rows[t->taken[at].row], e->ptr);
    }
    t->freed[r->freed++ % CT_DECODER_RING] = e->ptr;
}

// ---- decoder: what PyTorch states

static inline void ct_decoder_get_reported(struct ct_decoder *r, struct ct_event *e) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    struct ct_reported *before = ct_reported_last(t->stated, e);
    if (CT_HAS(e, reserved_bytes))
        e->reserved_bytes = before->reserved +=
            ct_unzigzag(ct_decoder_get_varint(r, CT_FIELD_reserved_bytes));
    if (CT_HAS(e, allocated_bytes))
        e->allocated_bytes = before->allocated =
            ct_reported_expected(before, e) +
            ct_unzigzag(ct_decoder_get_varint(r, CT_FIELD_allocated_bytes));
}

// ---- decoder: times and whole records

static inline void ct_decoder_get_time(struct ct_decoder *r, struct ct_event *e) {
    const unsigned high = ct_decoder_get_byte(r, CT_COLUMN_TIME_HIGH),
                   low = ct_decoder_get_byte(r, CT_FIELD_t_ns);
    uint64_t ticks = high << 8 | low;
    int exact = r->tick_ns > 1;
    if (high == CT_TICKS_MORE) {
        ticks = ct_unzigzag(ct_decoder_get_varint(r, CT_COLUMN_TIME_MORE));
        exact = exact && low;
    } else if (high == CT_TICKS_EXACT) {
        ticks = low;
    } else {
        exact = exact && !ticks;
    }
    r->tick += ticks;
    r->exact = exact || r->tick_ns == 1;
    e->t_ns = r->tick * r->tick_ns + (exact ? ct_decoder_get_varint(r, CT_COLUMN_TIME_REST) : 0);
}

static inline void ct_decoder_get_duration(struct ct_decoder *r, struct ct_event *e) {
    const unsigned high = ct_decoder_get_byte(r, CT_COLUMN_DURATION_HIGH),
                   low = ct_decoder_get_byte(r, CT_FIELD_duration_ns);
    const uint64_t ticks =
        high == CT_TICKS_MORE ? ct_decoder_get_varint(r, CT_COLUMN_DURATION_MORE) : high << 8 | low;
    e->duration_ns = ticks * r->tick_ns;
}

static inline int ct_decoder_next_packed(struct ct_decoder *r, struct ct_event *e) {
    ct_decoder_get_template(r, e);
    if (r->bad)
        return -1;
    const uint64_t present = e->present;
    if (CT_HAS(e, t_ns))
        ct_decoder_get_time(r, e);
    uint64_t fields = present & ~CT_CODED_FIELDS;
    if (ct_event_reports_totals(e)) {
        fields &= ~CT_REPORTED_FIELDS;
        ct_decoder_get_reported(r, e);
    }
    ct_decoder_get_fields(r, e, fields);
    if (CT_HAS(e, ptr) && ct_event_allocates(e))
        ct_decoder_get_alloc_address(r, e);
    else if (CT_HAS(e, ptr))
        ct_decoder_get_free_address(r, e);
    if (CT_HAS(e, duration_ns))
        ct_decoder_get_duration(r, e);
    e->present = present & CT_ALL_FIELDS;
    return r->bad ? -1 : 1;
}

// Next record: 1, 0 behind the last one, -1 if it is malformed.
static inline int ct_decoder_next(struct ct_decoder *r, struct ct_event *e) {
    if (!r->left)
        return 0;
    r->left--;
    if (r->column[0].coding == CT_PACKED)
        return ct_decoder_next_packed(r, e);
    const uint64_t mask = ct_decoder_get_field(r, 0);
    if (mask & ~r->known || mask & 1)
        return -1;
    e->present = 0;
    ct_decoder_get_fields(r, e, mask);
    return r->bad ? -1 : 1;
}

#endif

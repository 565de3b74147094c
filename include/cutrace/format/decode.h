// SPDX-License-Identifier: Apache-2.0
// The decoder: events out of the columns of an EVENTS section, packed or plain. FORMAT.md, section
// 3, is the specification.
//
// Whatever the bytes are, the decoder reads and writes nothing beyond the section and the memory
// that the caller lends, and each call of ct_decoder_next takes a bounded time. Nothing here
// allocates. One thread at a time uses a decoder.
#ifndef CUTRACE_DECODE_H
#define CUTRACE_DECODE_H

#include <cutrace/format/columns.h>

enum { CT_DECODER_RING = 32768 }; // addresses that the decoder remembers
_Static_assert((int)CT_FREE_CODE_MAX < (int)CT_DECODER_RING &&
                   (int)CT_FREED_MAX < (int)CT_DECODER_RING &&
                   (int)CT_ENDS_MAX < (int)CT_DECODER_RING,
               "the ring holds all that a distance can reach");

struct ct_decoder_tables {
    struct {
        uint64_t bytes;
        uint32_t stack, shape;
    } templates[CT_TEMPLATES];
    struct ct_shape shapes[CT_SHAPES];
    struct {
        uint64_t ptr, end;
        uint32_t row;
    } alloc[CT_DECODER_RING];
    uint64_t freed[CT_DECODER_RING];
    uint64_t rows[CT_ROWS][CT_ROW];
    struct ct_reported reported[CT_REPORTED_DEVICES];
};

// Size of the memory that a packed section needs.
static inline size_t ct_decoder_memory_bytes(void) {
    return sizeof(struct ct_decoder_tables);
}

// Reads the records of an EVENTS section in order.
struct ct_decoder {
    // ct_decoder_memory_bytes() bytes, aligned to 8. The caller sets it before ct_decoder_open;
    // NULL: packed sections are reported as malformed.
    void *memory;
    uint64_t left;  // records that are not read yet
    uint64_t known; // columns that the section has, as a mask
    uint64_t tick_ns;
    int exact; // the time of the last record is exact, not rounded down to its tick
    int bad;   // a column ended too early, or a code refers to nothing
    struct {
        struct ct_in in;
        uint64_t last;
        enum ct_coding coding;
    } column[64];
    // State of packed columns.
    uint64_t tick, alloc_end;
    uint32_t stack, shapes, templates, allocs, frees;
    struct ct_shape shape; // the last one without a number
};

// Finds the columns and their codings. Columns with unknown numbers are skipped.
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

// Returns 0, or -1 if the section is malformed.
static inline int ct_decoder_open(struct ct_decoder *r, struct ct_in section) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    uint64_t packed = 0;
    *r = (struct ct_decoder){.memory = t, .tick_ns = 1, .exact = 1};
    r->left = ct_get_varint(&section);
    if (ct_decoder_read_columns(r, &section) || r->left > CT_MAX_EVENTS ||
        (r->left && !(r->known & 1)))
        return -1;
    for (unsigned f = 0; f < 64; f++)
        packed |= (uint64_t)(r->column[f].coding == CT_PACKED) << f;
    if (!packed)
        return 0;
    if (!t || (r->known & CT_KNOWN_COLUMNS & (packed ^ CT_PACKED_COLUMNS)))
        return -1;
    r->tick_ns = ct_decoder_get_varint(r, CT_COLUMN_TIME_MORE);
    memset(t->rows, 0, sizeof t->rows);
    memset(t->reported, 0, sizeof t->reported);
    return r->bad || !r->tick_ns || r->tick_ns > CT_MAX_TICK_NS ? -1 : 0;
}

static inline uint64_t ct_decoder_get_field(struct ct_decoder *r, unsigned field) {
    uint64_t v = ct_decoder_get_varint(r, field);
    if (r->column[field].coding == CT_DELTA)
        v = r->column[field].last += ct_unzigzag(v);
    return v;
}

// Reads the values of a mask's fields. Values of fields that this version does not know are
// dropped.
static inline void ct_decoder_get_fields(struct ct_decoder *r, struct ct_event *e,
                                         uint64_t fields) {
    for (; fields; fields &= fields - 1) {
        const unsigned field = (unsigned)__builtin_ctzll(fields);
        const uint64_t v = ct_decoder_get_field(r, field);
        if (field < CT_FIELDS_END)
            ct_event_set(e, field, v);
    }
}

// ---- templates ----------------------------------------------------------------------------------

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

// Reads a shape. A new one gets the next number, as long as there are any. Returns the number;
// CT_SHAPES if the shape has none and is in r->shape.
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

// Reads a template that is written in full. The event gets its shape, size and stack.
static inline void ct_decoder_define_template(struct ct_decoder *r, struct ct_event *e,
                                              int numbered) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    const unsigned shape = ct_decoder_get_shape(r);
    if (r->bad)
        return;
    ct_decoder_apply_shape(e, shape == CT_SHAPES ? &r->shape : &t->shapes[shape]);
    e->bytes = 0;
    if (CT_HAS(e, bytes)) {
        const uint64_t code = ct_decoder_get_varint(r, CT_FIELD_bytes);
        e->bytes =
            code == CT_SIZE_PLAIN ? ct_decoder_get_varint(r, CT_FIELD_bytes) : ct_size_decode(code);
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
        number = CT_TEMPLATE_WIDE + ((number - CT_TEMPLATE_WIDE) << 8 |
                                     ct_decoder_get_byte(r, CT_COLUMN_TEMPLATE_LOW));
    number -= CT_TEMPLATE_FIRST;
    if (number >= r->templates) {
        r->bad = 1;
        return;
    }
    ct_decoder_apply_shape(e, &t->shapes[t->templates[number].shape]);
    e->bytes = t->templates[number].bytes;
    e->stack = t->templates[number].stack;
}

// ---- addresses ----------------------------------------------------------------------------------

static inline uint64_t ct_decoder_get_full_address(struct ct_decoder *r) {
    uint64_t low = 0;
    for (unsigned i = 0; i < 4; i++)
        low |= (uint64_t)ct_decoder_get_byte(r, CT_COLUMN_ADDRESS_0 + i) << (8 * i);
    r->column[CT_FIELD_ptr].last += ct_unzigzag(ct_decoder_get_varint(r, CT_COLUMN_ADDRESS_4));
    return r->column[CT_FIELD_ptr].last << 32 | low;
}

// Reads a distance that ct_encoder_put_distance wrote and returns the ring index of the entry that
// lies so far back, of `count` in all. No distance exceeds CT_DECODER_RING, so the entry is still
// there.
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
        e->ptr = r->alloc_end;
    } else if (code < CT_ALLOC_CODE_FREED) {
        e->ptr = t->rows[row][code - CT_ALLOC_CODE_ROW];
        ct_row_remove(t->rows[row], code - CT_ALLOC_CODE_ROW);
    } else if (code < CT_ALLOC_CODE_END) {
        e->ptr = t->freed[ct_decoder_get_distance(r, code, CT_ALLOC_CODE_FREED,
                                                  CT_ALLOC_CODE_FREED_WIDE, r->frees)];
    } else {
        e->ptr = t->alloc[ct_decoder_get_distance(r, code, CT_ALLOC_CODE_END, CT_ALLOC_CODE_END,
                                                  r->allocs)]
                     .end;
    }
    r->alloc_end = e->ptr + e->bytes;
    t->alloc[r->allocs % CT_DECODER_RING].ptr = e->ptr;
    t->alloc[r->allocs % CT_DECODER_RING].end = r->alloc_end;
    t->alloc[r->allocs++ % CT_DECODER_RING].row = row;
}

static inline void ct_decoder_get_free_address(struct ct_decoder *r, struct ct_event *e) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    const unsigned code = ct_decoder_get_byte(r, CT_COLUMN_FREE_ADDRESS);
    if (code == CT_FREE_CODE_FULL) {
        e->ptr = ct_decoder_get_full_address(r);
    } else {
        const unsigned at =
            ct_decoder_get_distance(r, code, CT_FREE_CODE_NEAR, CT_FREE_CODE_WIDE, r->allocs);
        if (r->bad)
            return;
        e->ptr = t->alloc[at].ptr;
        ct_row_push(t->rows[t->alloc[at].row], e->ptr);
    }
    t->freed[r->frees++ % CT_DECODER_RING] = e->ptr;
}

// ---- totals that PyTorch reports ----------------------------------------------------------------

static inline void ct_decoder_get_reported(struct ct_decoder *r, struct ct_event *e) {
    struct ct_decoder_tables *t = (struct ct_decoder_tables *)r->memory;
    struct ct_reported *last = ct_reported_last(t->reported, e);
    if (CT_HAS(e, reserved_bytes))
        e->reserved_bytes = last->reserved +=
            ct_unzigzag(ct_decoder_get_varint(r, CT_FIELD_reserved_bytes));
    if (CT_HAS(e, allocated_bytes))
        e->allocated_bytes = last->allocated =
            ct_reported_expected(last, e) +
            ct_unzigzag(ct_decoder_get_varint(r, CT_FIELD_allocated_bytes));
}

// ---- times and whole records --------------------------------------------------------------------

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

CT_HOT int ct_decoder_next_packed(struct ct_decoder *r, struct ct_event *e) {
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
    if (fields & CT_BIT(thread)) { // most events have no other one
        e->thread = (uint32_t)ct_decoder_get_field(r, CT_FIELD_thread);
        fields &= ~CT_BIT(thread);
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

// Reads the next record. Returns 1, 0 after the last one, -1 if the record is malformed.
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

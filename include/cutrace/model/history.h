// SPDX-License-Identifier: Apache-2.0
// The history: coarse curves of a process's whole life in a fixed size. They cover the time whose
// chunks were overwritten.
//
// A cell is one device in one bucket of time. The number of cells is fixed: when all are in use,
// buckets are merged in pairs and become twice as long. So at any time the width is the smallest
// one (10 ms times a power of two) with which all cells fit. Header-only and free of I/O.
// FORMAT.md, section 8, specifies the coding.
#ifndef CUTRACE_HISTORY_H
#define CUTRACE_HISTORY_H

#include <cutrace/format/assert.h>
#include <cutrace/format/bytes.h>
#include <cutrace/model/address_map.h>
#include <cutrace/model/readings.h>

#define CT_HISTORY_CELLS 1024u
#define CT_HISTORY_WIDTH_NS UINT64_C(10000000)

// The quantities that have a curve: number (part of the format), NAME, name. All are in bytes
// except the last, which is in 1/1000.
#define CT_QUANTITIES(X)             \
    X(0, USED, "used")               \
    X(1, TRACKED, "tracked")         \
    X(2, UNTRACKED, "untracked")     \
    X(3, RESERVED, "reserved")       \
    X(4, ALLOCATED, "allocated")     \
    X(5, LARGEST_GAP, "largest_gap") \
    X(6, FRAGMENTATION, "fragmentation")

enum ct_quantity {
#define CT_X(number, NAME, name) CT_QUANTITY_##NAME = (number),
    CT_QUANTITIES(CT_X)
#undef CT_X
        CT_QUANTITIES_END
};

// The quantities at one time. Only those with their bit (1 << CT_QUANTITY_x) in `known` count.
struct ct_quantities {
    uint32_t known;
    uint64_t value[CT_QUANTITIES_END];
};

struct ct_history_curve {
    uint64_t min, max, last;
};

struct ct_history_cell {
    uint64_t bucket;       // begins at start_ns + bucket * width_ns
    uint64_t events, ooms; // ooms: out-of-memory failures of the driver
    uint32_t device;       // index; CT_MAX_DEVICES: unknown
    uint32_t known;
    struct ct_history_curve curve[CT_QUANTITIES_END];
};

struct ct_history {
    uint64_t start_ns, width_ns;
    uint32_t cells;
    uint32_t last[CT_DEVICES];                     // index of a device's latest cell, + 1
    uint64_t until_ns[CT_DEVICES];                 // when that cell ends
    struct ct_history_cell cell[CT_HISTORY_CELLS]; // those of a device in the order of time
};
_Static_assert(sizeof(struct ct_history) <= 256u << 10, "the bound on memory");

static inline void ct_history_begin(struct ct_history *h, uint64_t start_ns) {
    h->start_ns = start_ns;
    h->width_ns = CT_HISTORY_WIDTH_NS;
    h->cells = 0;
    memset(h->last, 0, sizeof h->last);
    memset(h->until_ns, 0, sizeof h->until_ns);
}

// ---- filling ------------------------------------------------------------------------------------

static inline void ct_curve_add(struct ct_history_cell *c, unsigned quantity,
                                const struct ct_history_curve *more) {
    struct ct_history_curve *to = &c->curve[quantity];
    if (c->known >> quantity & 1) {
        to->min = more->min < to->min ? more->min : to->min;
        to->max = more->max > to->max ? more->max : to->max;
        to->last = more->last;
    } else {
        *to = *more;
        c->known |= 1u << quantity;
    }
}

static inline void ct_history_set_last(struct ct_history *h, uint32_t at) {
    const struct ct_history_cell *c = &h->cell[at];
    const uint64_t room = (UINT64_MAX - h->start_ns) / h->width_ns;
    h->last[c->device] = at + 1;
    h->until_ns[c->device] =
        c->bucket < room ? h->start_ns + (c->bucket + 1) * h->width_ns : UINT64_MAX;
}

// Merges buckets in pairs: they become twice as long.
static inline void ct_history_merge_pairs(struct ct_history *h) {
    uint32_t n = 0;
    h->width_ns *= 2;
    memset(h->last, 0, sizeof h->last);
    for (uint32_t i = 0; i < h->cells; i++) {
        const struct ct_history_cell *from = &h->cell[i];
        struct ct_history_cell *to =
            h->last[from->device] ? &h->cell[h->last[from->device] - 1] : NULL;
        if (to && to->bucket == from->bucket / 2) {
            to->events += from->events;
            to->ooms += from->ooms;
            for (unsigned q = 0; q < CT_QUANTITIES_END; q++)
                if (from->known >> q & 1)
                    ct_curve_add(to, q, &from->curve[q]);
        } else {
            h->cell[n] = *from;
            h->cell[n].bucket /= 2;
            ct_history_set_last(h, n++);
        }
    }
    h->cells = n;
}

// The cell of a time. Times of a device come in order; one that is late counts in the latest cell.
static inline struct ct_history_cell *ct_history_cell(struct ct_history *h, uint64_t t_ns,
                                                      int device) {
    const unsigned index = (unsigned)ct_device_to_index(device);
    while (!h->last[index] || t_ns >= h->until_ns[index]) {
        const uint64_t bucket = t_ns > h->start_ns ? (t_ns - h->start_ns) / h->width_ns : 0;
        if (h->last[index] && h->cell[h->last[index] - 1].bucket >= bucket)
            break; // no later bucket can be numbered
        if (h->cells == CT_HISTORY_CELLS) {
            ct_history_merge_pairs(h);
            continue;
        }
        struct ct_history_cell *made = &h->cell[h->cells];
        memset(made, 0, sizeof *made);
        made->bucket = bucket;
        made->device = index;
        ct_history_set_last(h, h->cells++);
    }
    CT_ASSERT(h->last[index] <= h->cells && h->cells <= CT_HISTORY_CELLS);
    return &h->cell[h->last[index] - 1];
}

static inline void ct_history_add(struct ct_history *h, uint64_t t_ns, int device,
                                  const struct ct_quantities *now) {
    struct ct_history_cell *c = ct_history_cell(h, t_ns, device);
    for (unsigned q = 0; q < CT_QUANTITIES_END; q++)
        if (now->known >> q & 1)
            ct_curve_add(c, q,
                         &(struct ct_history_curve){now->value[q], now->value[q], now->value[q]});
}

static inline void ct_history_count(struct ct_history *h, uint64_t t_ns, int device,
                                    uint64_t events, uint64_t ooms) {
    struct ct_history_cell *c = ct_history_cell(h, t_ns, device);
    c->events += events;
    c->ooms += ooms;
}

static inline void ct_quantity_set(struct ct_quantities *q, enum ct_quantity which,
                                   uint64_t value) {
    q->known |= 1u << which;
    q->value[which] = value;
}

// The counts of a device from which, with the last reading, all quantities but the gaps follow. No
// quantity falls when one of these rises.
struct ct_device_counts {
    uint64_t tracked, reserved, allocated;
};

static inline struct ct_device_counts ct_device_counts_now(const struct ct_live_device *d) {
    return (struct ct_device_counts){ct_live_tracked(d), d->pool_bytes, d->live_bytes};
}

// `gaps` may be NULL: finding them takes some microseconds, so it is not done each time.
static inline struct ct_quantities ct_quantities_of(const struct ct_device_counts *counted,
                                                    const struct ct_readings *r, int device,
                                                    const struct ct_gaps *gaps) {
    const struct ct_breakdown s = ct_readings_breakdown_of(r, device, counted->tracked);
    struct ct_quantities q;
    q.known = 0;
    if (s.used_known)
        ct_quantity_set(&q, CT_QUANTITY_USED, s.used);
    ct_quantity_set(&q, CT_QUANTITY_TRACKED, s.tracked);
    if (s.used_known && s.split_known)
        ct_quantity_set(&q, CT_QUANTITY_UNTRACKED, s.untracked);
    ct_quantity_set(&q, CT_QUANTITY_RESERVED, counted->reserved);
    ct_quantity_set(&q, CT_QUANTITY_ALLOCATED, counted->allocated);
    if (gaps) {
        ct_quantity_set(&q, CT_QUANTITY_LARGEST_GAP, gaps->largest);
        ct_quantity_set(&q, CT_QUANTITY_FRAGMENTATION, ct_gaps_permille(gaps));
    }
    return q;
}

// The quantities of a device (an index) now.
static inline struct ct_quantities ct_quantities_now(const struct ct_live *l,
                                                     const struct ct_readings *r, int device,
                                                     const struct ct_gaps *gaps) {
    const struct ct_device_counts now = ct_device_counts_now(&l->device[device]);
    return ct_quantities_of(&now, r, device, gaps);
}

// ---- coding -------------------------------------------------------------------------------------
// start_ns, width_ns, number of cells; then columns: number, u32 length, values.

enum ct_history_column {
    CT_HISTORY_DEVICE, // difference to the cell before
    CT_HISTORY_BUCKET, // difference to the cell before if that has the same device; else the bucket
    CT_HISTORY_KNOWN,  // mask of quantities
    CT_HISTORY_EVENTS,
    CT_HISTORY_OOMS,
    // From here on for each quantity: last (zigzag of the difference to the one before of the same
    // device, the first one to 0), last - min, max - last.
    CT_HISTORY_CURVES = 8,
    CT_HISTORY_COLUMNS = CT_HISTORY_CURVES + 3 * CT_QUANTITIES_END,
};

#define CT_HISTORY_BYTES (320u << 10) // no section is larger

// Orders the cells by device, and those of a device by time.
static inline void ct_history_order(const struct ct_history *h, uint16_t order[CT_HISTORY_CELLS]) {
    uint32_t place[CT_DEVICES + 1] = {0};
    for (uint32_t i = 0; i < h->cells; i++)
        place[h->cell[i].device + 1]++;
    for (unsigned d = 0; d < CT_DEVICES; d++)
        place[d + 1] += place[d];
    for (uint32_t i = 0; i < h->cells; i++)
        order[place[h->cell[i].device]++] = (uint16_t)i;
}

static inline uint64_t ct_history_value(const struct ct_history_cell *c,
                                        const struct ct_history_cell *before, unsigned column,
                                        uint64_t *last) {
    const int same = before && before->device == c->device;
    if (column == CT_HISTORY_DEVICE)
        return c->device - (before ? before->device : 0);
    if (column == CT_HISTORY_BUCKET)
        return c->bucket - (same ? before->bucket : 0);
    if (column == CT_HISTORY_KNOWN)
        return c->known;
    if (column == CT_HISTORY_EVENTS)
        return c->events;
    if (column == CT_HISTORY_OOMS)
        return c->ooms;
    const struct ct_history_curve *curve = &c->curve[(column - CT_HISTORY_CURVES) / 3];
    const unsigned which = (column - CT_HISTORY_CURVES) % 3;
    if (which)
        return which == 1 ? curve->last - curve->min : curve->max - curve->last;
    const uint64_t difference = curve->last - *last;
    *last = curve->last;
    return ct_zigzag(difference);
}

// Whether a cell has a value in a column.
static inline int ct_history_has(uint32_t known, unsigned column) {
    return column < CT_HISTORY_CURVES || known >> (column - CT_HISTORY_CURVES) / 3 & 1;
}

// Writes the content of a HISTORY section. It is valid unless out->bad is set.
static inline void ct_history_encode(const struct ct_history *h, struct ct_out *out) {
    static const uint8_t zero[4];
    uint16_t order[CT_HISTORY_CELLS];
    ct_history_order(h, order);
    ct_put_varint(out, h->start_ns);
    ct_put_varint(out, h->width_ns);
    ct_put_varint(out, h->cells);
    for (unsigned column = 0; column < CT_HISTORY_COLUMNS; column++) {
        const struct ct_history_cell *before = NULL;
        uint64_t last = 0;
        if (column > CT_HISTORY_OOMS && column < CT_HISTORY_CURVES)
            continue;
        ct_put_varint(out, column);
        uint8_t *length_at = out->at;
        ct_put_bytes(out, zero, 4);
        for (uint32_t i = 0; i < h->cells && !out->bad; i++) {
            const struct ct_history_cell *c = &h->cell[order[i]];
            if (before && before->device != c->device)
                last = 0;
            if (ct_history_has(c->known, column))
                ct_put_varint(out, ct_history_value(c, before, column, &last));
            before = c;
        }
        ct_section_end(out, length_at);
    }
}

struct ct_history_in {
    struct ct_in column[CT_HISTORY_COLUMNS];
    uint64_t there;                   // columns
    uint64_t last[CT_QUANTITIES_END]; // of the device
};

static inline int ct_history_open(struct ct_history_in *r, struct ct_in *section) {
    memset(r, 0, sizeof *r);
    while (section->at < section->end) {
        const uint64_t column = ct_get_varint(section);
        const uint32_t n = ct_get_u32(section);
        const struct ct_in bytes = ct_get_slice(section, n);
        if (section->bad)
            return -1;
        if (column >= CT_HISTORY_COLUMNS)
            continue;
        if (r->there >> column & 1)
            return -1;
        r->there |= UINT64_C(1) << column;
        r->column[column] = bytes;
    }
    return section->bad ? -1 : 0;
}

static inline uint64_t ct_history_get(struct ct_history_in *r, unsigned column) {
    return r->there >> column & 1 ? ct_get_varint(&r->column[column]) : 0;
}

static inline int ct_history_get_curve(struct ct_history_in *r, unsigned quantity,
                                       struct ct_history_curve *curve) {
    const unsigned column = CT_HISTORY_CURVES + 3 * quantity;
    const uint64_t last = r->last[quantity] += ct_unzigzag(ct_history_get(r, column));
    const uint64_t below = ct_history_get(r, column + 1), above = ct_history_get(r, column + 2);
    *curve = (struct ct_history_curve){last - below, last + above, last};
    return (r->there >> column & 7) != 7 || below > last || above > UINT64_MAX - last ? -1 : 0;
}

static inline int ct_history_get_cell(struct ct_history_in *r, const struct ct_history *h,
                                      struct ct_history_cell *c) {
    const struct ct_history_cell *before = h->cells ? c - 1 : NULL;
    const uint64_t device = ct_history_get(r, CT_HISTORY_DEVICE) + (before ? before->device : 0);
    if (device > CT_MAX_DEVICES)
        return -1;
    if (before && before->device != device) {
        memset(r->last, 0, sizeof r->last);
        before = NULL;
    }
    const uint64_t bucket = ct_history_get(r, CT_HISTORY_BUCKET),
                   base = before ? before->bucket : 0;
    if ((before && !bucket) || bucket > (UINT64_MAX - h->start_ns) / h->width_ns - base)
        return -1;
    c->device = (uint32_t)device;
    c->bucket = base + bucket;
    c->known = (uint32_t)ct_history_get(r, CT_HISTORY_KNOWN) & ((1u << CT_QUANTITIES_END) - 1);
    c->events = ct_history_get(r, CT_HISTORY_EVENTS);
    c->ooms = ct_history_get(r, CT_HISTORY_OOMS);
    for (unsigned q = 0; q < CT_QUANTITIES_END; q++)
        if (c->known >> q & 1 && ct_history_get_curve(r, q, &c->curve[q]))
            return -1;
    return 0;
}

// Reads a HISTORY section. Returns 0, or -1 if it is malformed; the history is then empty. Cells
// can be added afterwards.
static inline int ct_history_decode(struct ct_history *h, struct ct_in section) {
    struct ct_history_in r;
    memset(h, 0, sizeof *h);
    const uint64_t start = ct_get_varint(&section), width = ct_get_varint(&section);
    const uint64_t cells = ct_get_varint(&section);
    ct_history_begin(h, start);
    if (section.bad || !width || width > UINT64_MAX / 2 || cells > CT_HISTORY_CELLS ||
        ct_history_open(&r, &section))
        return -1;
    h->width_ns = width;
    int bad = 0;
    for (; h->cells < cells && !bad; h->cells++) {
        bad = ct_history_get_cell(&r, h, &h->cell[h->cells]);
        if (!bad)
            ct_history_set_last(h, h->cells);
    }
    for (unsigned column = 0; column < CT_HISTORY_COLUMNS; column++)
        bad |= r.column[column].bad || r.column[column].at != r.column[column].end;
    if (bad)
        ct_history_begin(h, start);
    return bad ? -1 : 0;
}

#endif

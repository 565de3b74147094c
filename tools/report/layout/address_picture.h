// SPDX-License-Identifier: Apache-2.0
// Which call site holds each address at a moment: a column of the map of addresses over time.
#ifndef CT_ADDRESS_PICTURE_H
#define CT_ADDRESS_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "layout/held_now.h"

// The addresses of a device's memory as the rows of a picture: ranges that were in use at any time,
// in ascending order, without the gaps between them.

// Ranges that the picture tells apart, and rows of it: at least one of each range.
enum { CT_ADDRESS_RANGES = 96, CT_ADDRESS_ROWS = 384 };

struct ct_address_range {
    uint64_t start, bytes;
    unsigned first_row, rows;
};

struct ct_address_axis {
    struct ct_address_range *ranges; // ascending and disjoint
    size_t count, room;
    unsigned rows;
};

// Adds a range; overlapping and adjacent ones become one. Where there are too many, the nearest
// neighbours become one with the gap between them.
void ct_address_axis_add(struct ct_address_axis *a, uint64_t start, uint64_t bytes);
// Divides the ranges into rows; to be called after the last one.
void ct_address_axis_finish(struct ct_address_axis *a);
void ct_address_axis_free(struct ct_address_axis *a);

// What a row of a column shows, or the position of the call site that holds most of it, after
// these.
enum { CT_ADDRESS_NOTHING, CT_ADDRESS_IDLE, CT_ADDRESS_MANY, CT_ADDRESS_SITES };
// Added to the latter two: most of the row is idle, and their blocks lie in the rest of it.
#define CT_ADDRESS_MOSTLY_IDLE 0x80000000u

struct ct_address_picture {
    const struct ct_address_axis *axis;
    struct ct_address_cell *cells; // of one column, CT_ADDRESS_ROWS
    struct ct_address_layer *layers;
};

void ct_address_picture_init(struct ct_address_picture *p, const struct ct_address_axis *axis);
// Reads the present state; `owners` gets one of each row of the axis. Visits all that is live,
// twice.
void ct_address_picture_read(struct ct_address_picture *p, struct ct_held_now *h, uint32_t *owners);
// A block, or an allocation that is no segment.
struct ct_address_block {
    uint64_t start, bytes, t_ns; // t_ns: when it was allocated
    uint32_t site;               // position of the call site
};
// Lists those that are in use at the present state, at most `most`, of which the largest, by
// address. Sets `all` to how many there are. `*list` is the caller's.
size_t ct_address_picture_list(struct ct_held_now *h, size_t most, struct ct_address_block **list,
                               size_t *all);
void ct_address_picture_free(struct ct_address_picture *p);

#endif

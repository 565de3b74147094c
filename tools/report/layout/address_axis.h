// SPDX-License-Identifier: Apache-2.0
// The addresses of a device's memory as the rows of a picture: ranges that were in use at any time,
// in ascending order, without the gaps between them.
#ifndef CT_ADDRESS_AXIS_H
#define CT_ADDRESS_AXIS_H

#include <stddef.h>
#include <stdint.h>

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
// The range that has an address, or NULL.
const struct ct_address_range *ct_address_axis_find(const struct ct_address_axis *a,
                                                    uint64_t address);
void ct_address_axis_free(struct ct_address_axis *a);

#endif

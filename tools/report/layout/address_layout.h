// SPDX-License-Identifier: Apache-2.0
// How the addresses of live allocations lie: gaps, rounding, small blocks. The physical layout is
// the driver's secret, so all of this is inferred, on the assumption that the driver hands out
// device memory in blocks of 2 MiB.
#ifndef CT_ADDRESS_LAYOUT_H
#define CT_ADDRESS_LAYOUT_H

#include "replay/replay.h"

struct ct_address_layout {
    uint64_t ranges, range_bytes; // live device memory from allocation calls
    uint64_t gaps, gap_bytes,
        gap_max;             // between neighbours closer to each other than the device is large
    uint64_t rounding_bytes; // of large allocations up to the next multiple of 2 MiB
    uint64_t small_blocks, small_bytes; // 2 MiB blocks with small allocations only; bytes of these
};

// `capacity` of the device; 0 = unknown.
struct ct_address_layout ct_address_layout_measure(const struct ct_replay *r, int device,
                                                   uint64_t capacity);

#endif

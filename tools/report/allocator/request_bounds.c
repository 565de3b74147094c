// SPDX-License-Identifier: Apache-2.0
#include "allocator/request_bounds.h"

uint64_t ct_request_most(const struct ct_allocator_settings *s, uint64_t bytes) {
    const uint64_t next = ct_allocator_round(s, bytes);
    uint64_t low = 0, high = bytes / CT_ALLOCATOR_MIN_BLOCK;
    if (bytes == s->max_split) // the segment of a request just below it
        return bytes - CT_ALLOCATOR_MIN_BLOCK;
    if (next <= bytes)
        return bytes;
    while (high - low > 1) { // in multiples of the smallest block: `low` is rounded to no more
        const uint64_t middle = low + (high - low) / 2;
        if (ct_allocator_round(s, middle * CT_ALLOCATOR_MIN_BLOCK) <= bytes)
            low = middle;
        else
            high = middle;
    }
    return low * CT_ALLOCATOR_MIN_BLOCK;
}

uint64_t ct_request_least(const struct ct_allocator_settings *s, uint64_t bytes, int whole) {
    uint64_t least = bytes;
    if (bytes > CT_ALLOCATOR_SMALL && whole && !s->expandable) {
        const uint64_t slack =
            bytes >= s->max_split ? s->max_rounding - CT_ALLOCATOR_MIN_BLOCK : CT_ALLOCATOR_SMALL;
        least = bytes > slack + CT_ALLOCATOR_SMALL ? bytes - slack
                                                   : CT_ALLOCATOR_SMALL + CT_ALLOCATOR_MIN_BLOCK;
    }
    if (!ct_allocator_has_divisions(s))
        return least;
    // Rounded up to a step of at most half of it: the request was above the step before.
    uint64_t low = least / 2, high = least;
    while (high - low > CT_ALLOCATOR_MIN_BLOCK) {
        const uint64_t middle =
            (low + (high - low) / 2) / CT_ALLOCATOR_MIN_BLOCK * CT_ALLOCATOR_MIN_BLOCK;
        if (middle <= low || ct_allocator_round(s, middle) >= least)
            high = middle > low ? middle : low + CT_ALLOCATOR_MIN_BLOCK;
        else
            low = middle;
    }
    return high;
}

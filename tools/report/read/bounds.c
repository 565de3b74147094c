// SPDX-License-Identifier: Apache-2.0
#include "read/bounds.h"

#include <cutrace/format/columns.h>

// More than all that a process allocates in months. The chunks of a long trace are many and small:
// a share is never less than what no chunk has.
#define MOST_OF_TRACE (UINT64_C(1) << 60)
#define LEAST_SHARE (UINT64_C(1) << 48)

void ct_size_bounds_begin(struct ct_size_bounds *b, size_t chunks) {
    const uint64_t share = MOST_OF_TRACE / (chunks ? chunks : 1);
    b->left = share > LEAST_SHARE ? share : LEAST_SHARE;
}

static void take_out(struct ct_event *e, unsigned field) {
    ct_event_set(e, field, 0);
    e->present &= ~(UINT64_C(1) << field);
}

void ct_size_bounds_take_out(const struct ct_size_bounds *b, struct ct_event *e) {
    for (uint64_t left = e->present & CT_SIZE_BOUNDS_FIELDS; left; left &= left - 1) {
        const unsigned field = (unsigned)__builtin_ctzll(left);
        if (ct_event_get(e, field) & CT_SIZE_BOUNDS_READING)
            take_out(e, field);
    }
    if (ct_size_bounds_added(e) > b->left)
        take_out(e, CT_FIELD_bytes);
}

// SPDX-License-Identifier: Apache-2.0
#include "read/size_bounds.h"

#include <cutrace/format/columns.h>

// More than all that a process allocates in months. The chunks of a long trace are many and small:
// a share is never less than what no chunk has.
#define MOST_OF_TRACE (UINT64_C(1) << 60)
#define LEAST_SHARE (UINT64_C(1) << 48)
// More than any machine has.
#define MOST_OF_READING (UINT64_C(1) << 48)

#define READINGS                                                            \
    (CT_BIT(free_bytes) | CT_BIT(total_bytes) | CT_BIT(free_before_bytes) | \
     CT_BIT(process_bytes) | CT_BIT(reserved_bytes) | CT_BIT(used_bytes) |  \
     CT_BIT(allocated_bytes))

void ct_size_bounds_begin(struct ct_size_bounds *b, size_t chunks) {
    const uint64_t share = MOST_OF_TRACE / (chunks ? chunks : 1);
    b->left = share > LEAST_SHARE ? share : LEAST_SHARE;
}

// Whether an event's size is one of memory. That of a call that failed is what was asked for, which
// may be anything; so may bounds that a program sets.
static int has_memory(const struct ct_event *e) {
    if (!CT_HAS(e, bytes) || (CT_HAS(e, result) && e->result))
        return 0;
    return e->op != CT_OP_BLOCK_OOM && e->op != CT_OP_LIMIT && e->op != CT_OP_POOL_TRIM;
}

static void take_out(struct ct_event *e, unsigned field) {
    ct_event_set(e, field, 0);
    e->present &= ~(UINT64_C(1) << field);
}

static int bound_readings(struct ct_event *e) {
    int found = 0;
    for (uint64_t left = e->present & READINGS; left; left &= left - 1) {
        const unsigned field = (unsigned)__builtin_ctzll(left);
        if (ct_event_get(e, field) <= MOST_OF_READING)
            continue;
        take_out(e, field);
        found = 1;
    }
    return found;
}

int ct_size_bounds_apply(struct ct_size_bounds *b, struct ct_event *e) {
    const int found = e->present & READINGS && bound_readings(e);
    if (!has_memory(e))
        return found;
    if (e->bytes > b->left) {
        take_out(e, CT_FIELD_bytes);
        return 1;
    }
    b->left -= e->bytes;
    return found;
}

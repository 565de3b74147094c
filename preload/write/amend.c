// SPDX-License-Identifier: Apache-2.0
// Corrections (AMEND events) of events in the same batch: most, because a call corrects its event
// within microseconds. The others go to the file, and a reader applies them.
#include "write/amend.h"

// The event in the batch that an AMEND corrects, or NULL.
static struct ct_event *find_amended(struct ct_event *batch, size_t n,
                                     const struct ct_event *amend) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (batch[middle].t_ns < amend->amends_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n && batch[low].t_ns == amend->amends_ns; low++)
        if (batch[low].thread == amend->thread && batch[low].op != CT_OP_AMEND)
            return &batch[low];
    return NULL;
}

void ct_amend_apply(struct ct_event *batch, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct ct_event *e = &batch[i];
        struct ct_event *target = e->op == CT_OP_AMEND ? find_amended(batch, n, e) : NULL;
        if (!target)
            continue;
        if (CT_HAS(e, result))
            CT_SET(target, result, e->result);
        if (CT_HAS(e, duration_ns))
            CT_SET(target, duration_ns, e->duration_ns);
        if (CT_HAS(e, stack))
            CT_SET(target, stack, e->stack);
        batch[i].op = 0;
    }
}

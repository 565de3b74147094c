// SPDX-License-Identifier: Apache-2.0
// The number by which NVML names a process is its own where it is in the namespace of NVML's
// driver; else it may have been found by its memory, in its own trace.
#include "processes/neighbour_siblings.h"

static uint64_t number_of(const struct ct_process *p) {
    if (!p->own_numbers)
        return p->inferred_pid;
    return p->pid_known ? p->pid : 0;
}

static void find(struct ct_neighbour *n, const struct ct_processes *all, size_t index) {
    for (size_t i = 0; i < all->count; i++) {
        const struct ct_process *p = &all->list[i];
        if (i == index || !p->is_usable || number_of(p) != n->pid ||
            !ct_process_shares_clock(p, &all->list[index]))
            continue;
        if (p->first_trace == all->list[index].first_trace) { // found in its other trace
            n->whose = CT_NEIGHBOUR_SELF_INFERRED;
            n->process = NULL;
            return;
        }
        n->process = p;
        n->whose = p->own_numbers ? CT_NEIGHBOUR_SIBLING : CT_NEIGHBOUR_SIBLING_INFERRED;
    }
}

void ct_neighbour_siblings_find(struct ct_neighbours *n, const struct ct_processes *all,
                                size_t index) {
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].pid && !ct_neighbour_is_self(&n->list[i]))
            find(&n->list[i], all, index);
}

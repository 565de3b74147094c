// SPDX-License-Identifier: Apache-2.0
#include "processes/siblings.h"

// ---- what they held -----------------------------------------------------------------------------

static const struct ct_process_device *find_on_gpu(const struct ct_process *p, int gpu) {
    for (size_t k = 0; k < p->device_count; k++)
        if (p->devices[k].gpu == gpu)
            return &p->devices[k];
    return NULL;
}

static int find_gpu(const struct ct_process *p, int ordinal) {
    for (size_t k = 0; k < p->device_count; k++)
        if (p->devices[k].ordinal == ordinal)
            return p->devices[k].gpu;
    return -1;
}

// What is known of a process at a time: before its first event only that it held nothing, if that
// event is its first one.
static enum ct_process_knowledge judge(const struct ct_process *p, uint64_t t) {
    const uint64_t last = ct_process_to_moment(p, p->t_last_ns);
    if (t < ct_process_to_moment(p, p->t_first_ns))
        return p->has_beginning ? CT_PROCESS_NOT_STARTED : CT_PROCESS_UNKNOWN;
    if (ct_process_is_replaced(p, t))
        return CT_PROCESS_ENDED;
    if (t <= last || p->running)
        return CT_PROCESS_KNOWN;
    if (t - last <= CT_PROCESS_LAST_SEEN_NS)
        return CT_PROCESS_LAST_SEEN;
    return ct_process_shows_end(p) ? CT_PROCESS_ENDED : CT_PROCESS_UNKNOWN;
}

// The entry of another trace of the same process.
static struct ct_sibling *find_trace(const struct ct_siblings *s, const struct ct_process *p) {
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].process->first_trace == p->first_trace)
            return &s->list[i];
    return NULL;
}

// What NVML reports of a process is all that it holds, in whichever trace that is tracked: what one
// trace has beyond its own is the other's, too.
static void join_trace(struct ct_siblings *s, struct ct_sibling *to, uint64_t bytes,
                       uint64_t tracked, int is_last_seen) {
    const uint64_t before = to->bytes;
    to->tracked += tracked;
    if (to->bytes < bytes)
        to->bytes = bytes;
    if (to->bytes < to->tracked)
        to->bytes = to->tracked;
    to->is_last_seen &= is_last_seen;
    s->bytes += to->bytes - before;
}

// Adds what a process held at a time of the moment's clock; the curves are on it.
static void add(struct ct_siblings *s, const struct ct_process *p,
                const struct ct_process_device *d, uint64_t t) {
    const enum ct_process_knowledge knowledge = judge(p, t);
    s->unknown += knowledge == CT_PROCESS_UNKNOWN;
    if (knowledge != CT_PROCESS_KNOWN && knowledge != CT_PROCESS_LAST_SEEN)
        return;
    const uint64_t tracked = ct_tracked_curve_at(&d->curve, t),
                   bytes = tracked + ct_tracked_curve_at(&d->untracked_curve, t);
    struct ct_sibling *other = find_trace(s, p);
    if (!bytes)
        return;
    if (other) {
        join_trace(s, other, bytes, tracked, knowledge == CT_PROCESS_LAST_SEEN);
        return;
    }
    s->list[s->count++] = (struct ct_sibling){.process = p,
                                              .is_last_seen = knowledge == CT_PROCESS_LAST_SEEN,
                                              .bytes = bytes,
                                              .tracked = tracked};
    s->bytes += bytes;
}

// Drops the largest one that was last seen before. Returns 0 if there is none.
static int drop_last_seen(struct ct_siblings *s) {
    size_t found = s->count;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].is_last_seen &&
            (found == s->count || s->list[i].bytes > s->list[found].bytes))
            found = i;
    if (found == s->count)
        return 0;
    s->bytes -= s->list[found].bytes;
    s->list[found] = s->list[--s->count];
    return 1;
}

static int compare(const void *a, const void *b) {
    const struct ct_sibling *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->process < y->process ? -1 : x->process > y->process;
}

void ct_siblings_find(struct ct_siblings *s, const struct ct_processes *all, size_t index,
                      int ordinal, uint64_t t_ns, uint64_t limit) {
    const struct ct_process *self = &all->list[index];
    const int gpu = find_gpu(self, ordinal);
    *s = (struct ct_siblings){.list = ct_heap_alloc_zeroed(all->count, sizeof *s->list)};
    for (size_t i = 0; i < all->count && gpu >= 0; i++) {
        const struct ct_process *p = &all->list[i];
        const struct ct_process_device *d = p->is_usable ? find_on_gpu(p, gpu) : NULL;
        if (!d || p->first_trace == self->first_trace)
            continue;
        if (!all->has_moment)
            s->unaligned++;
        else
            add(s, p, d, ct_process_to_moment(self, t_ns));
    }
    while (s->bytes > limit && drop_last_seen(s)) {
    }
    for (size_t i = 0; i < all->count; i++)
        s->job += all->list[i].is_usable && all->list[i].first_trace == i &&
                  self->job != SIZE_MAX && all->list[i].job == self->job;
    for (size_t i = 0; i < s->count; i++)
        s->list[i].same_job = self->job != SIZE_MAX && s->list[i].process->job == self->job;
    if (s->count)
        qsort(s->list, s->count, sizeof *s->list, compare);
}

void ct_siblings_free(struct ct_siblings *s) {
    free(s->list);
    *s = (struct ct_siblings){0};
}

// ---- the processes that NVML lists --------------------------------------------------------------

// The number by which NVML names a process is its own where it is in the namespace of NVML's
// driver; else it may have been found by its memory, in its own trace.
static uint64_t get_number(const struct ct_process *p) {
    if (!p->own_numbers)
        return p->inferred_pid;
    return p->pid_known ? p->pid : 0;
}

static void find_owner(struct ct_neighbour *n, const struct ct_processes *all, size_t index) {
    for (size_t i = 0; i < all->count; i++) {
        const struct ct_process *p = &all->list[i];
        if (i == index || !p->is_usable || get_number(p) != n->pid ||
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

void ct_siblings_find_neighbours(struct ct_neighbours *n, const struct ct_processes *all,
                                 size_t index) {
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].pid && !ct_neighbour_is_self(&n->list[i]))
            find_owner(&n->list[i], all, index);
}

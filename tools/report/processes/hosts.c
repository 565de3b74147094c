// SPDX-License-Identifier: Apache-2.0
#include "processes/hosts.h"

static void add_offset(struct ct_host *h, const struct ct_process *p) {
    if (!p->clock_known)
        return;
    if (p->clock_offset < h->least_offset)
        h->least_offset = p->clock_offset;
    if (p->clock_offset > h->most_offset)
        h->most_offset = p->clock_offset;
}

// The host whose first process has the same clock.
static size_t find_host(const struct ct_process *list, const struct ct_host *hosts, size_t count,
                        const struct ct_process *p) {
    for (size_t h = 0; h < count; h++)
        if (ct_process_shares_clock(&list[hosts[h].first], p))
            return h;
    return count;
}

static size_t find_first_trace(const struct ct_process *list, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (list[k].is_usable && list[i].is_usable && ct_process_is_same(&list[k], &list[i]))
            return list[k].first_trace;
    return i;
}

// A program that was replaced is not the one that still runs under the process's number.
static void find_replacement(struct ct_process *list, size_t count, size_t i) {
    struct ct_process *p = &list[i];
    for (size_t k = 0; k < count; k++)
        if (list[k].is_usable && list[k].first_trace == p->first_trace &&
            ct_process_was_replaced_by(p, &list[k]) && list[k].t_first_ns < p->replaced_ns)
            p->replaced_ns = list[k].t_first_ns;
    p->running &= p->replaced_ns == UINT64_MAX;
}

struct ct_host *ct_hosts_group(struct ct_process *list, size_t count, size_t *hosts) {
    struct ct_host *made = ct_heap_alloc_zeroed(count ? count : 1, sizeof *made);
    *hosts = 0;
    for (size_t i = 0; i < count; i++) {
        struct ct_process *p = &list[i];
        p->host = SIZE_MAX;
        p->first_trace = find_first_trace(list, i);
        if (!p->is_usable || !p->events)
            continue;
        p->host = find_host(list, made, *hosts, p);
        if (p->host == *hosts)
            made[(*hosts)++] = (struct ct_host){.first = i, .least_offset = UINT64_MAX};
        made[p->host].processes++;
        add_offset(&made[p->host], p);
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].is_usable)
            find_replacement(list, count, i);
    return made;
}

// The difference of two offsets; hostile ones stay in range.
static int64_t subtract(uint64_t a, uint64_t b) {
    const uint64_t apart = a > b ? a - b : b - a;
    const int64_t limited = apart < INT64_MAX ? (int64_t)apart : INT64_MAX;
    return a > b ? limited : -limited;
}

enum ct_alignment ct_hosts_align(struct ct_process *list, size_t count, const struct ct_host *hosts,
                                 size_t host_count, size_t reference) {
    enum ct_alignment alignment = host_count > 1 ? CT_ALIGNED_BY_TIME_OF_DAY : CT_ALIGNED_BY_CLOCK;
    for (size_t h = 0; h < host_count; h++)
        if (host_count > 1 && !list[hosts[h].first].clock_known)
            alignment = CT_NOT_ALIGNED;
    for (size_t i = 0; i < count; i++) {
        struct ct_process *p = &list[i];
        p->shift_ns = 0;
        if (alignment == CT_ALIGNED_BY_TIME_OF_DAY && p->host < host_count)
            p->shift_ns = subtract(list[hosts[p->host].first].clock_offset,
                                   list[hosts[list[reference].host].first].clock_offset);
    }
    return alignment;
}

uint64_t ct_hosts_find_drift(const struct ct_host *hosts, size_t host_count) {
    uint64_t drift = 0;
    for (size_t h = 0; h < host_count; h++)
        if (hosts[h].most_offset > hosts[h].least_offset &&
            hosts[h].most_offset - hosts[h].least_offset > drift)
            drift = hosts[h].most_offset - hosts[h].least_offset;
    return drift;
}

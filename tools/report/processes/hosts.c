// SPDX-License-Identifier: Apache-2.0
#include "processes/hosts.h"

// ---- hosts --------------------------------------------------------------------------------------

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

// ---- jobs ---------------------------------------------------------------------------------------
// Numbers of processes are compared only within one host and one PID namespace; where traces do not
// tell the latter, as far as the names of hosts tell containers apart. The id of a trace is nobody
// else's, wherever it is named.

static int is_same_place(const struct ct_process *p, const struct ct_process *q) {
    if (p->pid_namespace && q->pid_namespace && strcmp(p->pid_namespace, q->pid_namespace) != 0)
        return 0;
    return p->host == q->host && p->host != SIZE_MAX &&
           !(p->host_name && q->host_name && strcmp(p->host_name, q->host_name) != 0);
}

static int is_forked_from(const struct ct_process *p, const struct ct_process *parent) {
    return p->parent_trace_known && p->parent_trace == parent->trace_id;
}

// A number may have been another process's before: a parent has begun first.
static int is_child_of(const struct ct_process *p, const struct ct_process *parent) {
    return p->ppid_known && parent->pid_known && p->ppid == parent->pid &&
           !(p->start_known && parent->start_known && p->start_ns < parent->start_ns);
}

static int is_same_text(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

// Two ranks of jobs of the same size.
static int are_ranks(const struct ct_process *p, const struct ct_process *q) {
    return p->rank && q->rank && strcmp(p->rank, q->rank) != 0 &&
           (is_same_text(p->world, q->world) || (!p->world && !q->world));
}

// Whether the flags of a server were given to a process above this one: then its parent is a part
// of the server, not a shell.
static int is_started_by_server(const struct ct_process *p) {
    return p->flags_from && strcmp(p->flags_from, "self") != 0;
}

// vLLM names its worker processes, which its engine starts.
static int is_worker(const struct ct_process *p) {
    static const char name[] = "VLLM::Worker";
    return p->thread && strncmp(p->thread, name, sizeof name - 1) == 0;
}

// Two programs of one shell have the same parent, too: that alone proves nothing.
static int are_siblings(const struct ct_process *p, const struct ct_process *q) {
    if (!p->ppid_known || !q->ppid_known || p->ppid != q->ppid || p->ppid <= 1)
        return 0;
    return are_ranks(p, q) || (is_worker(p) && is_worker(q)) ||
           (is_started_by_server(p) && is_started_by_server(q));
}

static int is_same_job(const struct ct_process *p, const struct ct_process *q) {
    if (p->first_trace == q->first_trace) // one process is no job
        return 0;
    if (is_forked_from(p, q) || is_forked_from(q, p))
        return 1;
    return is_same_place(p, q) && (is_child_of(p, q) || is_child_of(q, p) || are_siblings(p, q));
}

void ct_jobs_find(struct ct_process *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        list[i].job = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i && list[i].is_usable; k++) {
            if (!list[k].is_usable || !is_same_job(&list[i], &list[k]))
                continue;
            const size_t first = list[k].job == SIZE_MAX ? k : list[k].job;
            const size_t other = list[i].job == SIZE_MAX ? first : list[i].job;
            const size_t job = first < other ? first : other, gone = first < other ? other : first;
            list[k].job = list[i].job = job;
            for (size_t n = 0; n < i; n++) // two jobs turn out to be one
                if (list[n].job == gone)
                    list[n].job = job;
        }
}

// SPDX-License-Identifier: Apache-2.0
// Numbers of processes are compared only within one host and one PID namespace; where traces do not
// tell the latter, as far as the names of hosts tell containers apart. The id of a trace is nobody
// else's, wherever it is named.
#include "processes/jobs.h"

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

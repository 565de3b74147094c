// SPDX-License-Identifier: Apache-2.0
// What the other traced processes held on a device at a moment of one of them: it is no memory of
// strangers. And which of the processes that NVML lists they are.
#ifndef CT_SIBLINGS_H
#define CT_SIBLINGS_H

#include "processes/neighbours.h"
#include "processes/processes.h"

struct ct_sibling {
    const struct ct_process *process;
    int same_job;     // proved; else it is not known whether it is of the same job
    int is_last_seen; // as of its last event, after which it may have ended
    uint64_t bytes;   // tracked, and what NVML reported beyond that
    uint64_t tracked; // of them, in all its traces
};

struct ct_siblings {
    struct ct_sibling *list; // those that held something, the most first
    size_t count;
    uint64_t bytes;   // of all of them
    size_t job;       // how many of the processes are of the same job, with this one
    size_t unaligned; // processes that used the device on a clock that cannot be compared
    size_t unknown;   // processes on the device of which nothing is known at that time
};

// Of the processes on the device `ordinal` of process `index`, at a time of its own clock. They
// held together no more than `limit`, which is what was read of others: those that were last seen
// before and do not fit have ended.
void ct_siblings_find(struct ct_siblings *s, const struct ct_processes *all, size_t index,
                      int ordinal, uint64_t t_ns, uint64_t limit);
void ct_siblings_free(struct ct_siblings *s);

// Marks those that NVML lists, after ct_neighbours_identify; `index` is the trace of the list.
void ct_siblings_find_neighbours(struct ct_neighbours *n, const struct ct_processes *all,
                                 size_t index);

#endif

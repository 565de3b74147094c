// SPDX-License-Identifier: Apache-2.0
// Which of several processes have a clock in common, and how the clocks of different hosts are put
// on one axis: the clock of the moment that all are described at.
//
// A host here is a boot of a machine: CLOCK_MONOTONIC is common to its processes. Between hosts
// there is only the time of day, of which each trace has one reading beside CLOCK_MONOTONIC. How
// far the hosts' times of day differ is not in the traces.
#ifndef CT_HOSTS_H
#define CT_HOSTS_H

#include "processes/process.h"

struct ct_host {
    size_t first, processes;            // position of the first one, and how many
    uint64_t least_offset, most_offset; // of the time of day to the monotonic clock
};

enum ct_alignment {
    CT_ALIGNED_BY_CLOCK,       // one host
    CT_ALIGNED_BY_TIME_OF_DAY, // several
    CT_NOT_ALIGNED,            // several, and of one the time of day is not known
};

// Sets `host` of each process that has events, and `first_trace` and `replaced_ns` of each. The
// caller frees the list.
struct ct_host *ct_hosts_group(struct ct_process *list, size_t count, size_t *hosts);
// Sets `shift_ns` of each process to the clock of `reference`'s host.
enum ct_alignment ct_hosts_align(struct ct_process *list, size_t count, const struct ct_host *hosts,
                                 size_t host_count, size_t reference);
// By how much the time of day was moved on one host between two of its traces, at most; 0 if no
// host has two traces.
uint64_t ct_hosts_find_drift(const struct ct_host *hosts, size_t host_count);

// Which of several processes are of the same job, as far as their traces prove it: one was started
// by the other, or both by the program that starts the ranks of a job.

// Sets `job` of each process: the position of the first one of the same job; SIZE_MAX: it is not
// known to be of a job with any other. Needs their hosts.
void ct_jobs_find(struct ct_process *list, size_t count);

#endif

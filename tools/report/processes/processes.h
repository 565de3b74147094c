// SPDX-License-Identifier: Apache-2.0
// Several processes at one moment: that of the OOM (the last one that was not recovered, of any
// process), else that of the highest sum of tracked memory on one GPU, else the last event.
//
// Their events are on the same clock if they were recorded during one boot of one machine; those of
// several hosts are aligned by the time of day (processes/hosts.h). Where that is not known there
// is no such moment: then each process is described at its own OOM or peak, and nothing is summed.
#ifndef CT_PROCESSES_H
#define CT_PROCESSES_H

#include "processes/hosts.h"

// A GPU, or a MIG slice of one, as the processes together use it.
struct ct_gpu {
    uint64_t uuid, nvml_index;
    int uuid_known, index_known;
    int ordinal;       // of the first process; CT_MAX_DEVICES: unknown
    size_t host;       // of the first process; it tells GPUs apart where the UUID is not known
    int same_ordinals; // all processes have that ordinal
    const char *name;
    struct ct_device_kind kind; // by the first process that knows more than that it is a card
    size_t processes, traces;   // traces: a process may have several
    // At the moment; nothing of it where there is none.
    size_t unknown, last_seen; // processes of these kinds
    uint64_t tracked;          // of all processes but the unknown ones
    // What fills the GPU: of all processes together, of others, and what is free.
    struct ct_account account;
    uint64_t measured[CT_MEASURED_PARTS]; // of the untracked memory of all processes
    // By the newest reading of any process and what was tracked since: total = tracked + rest +
    // free, and rest = untracked + others + unattributed; that is the whole rest unless
    // split_known.
    int used_known, split_known, is_contradictory, totals_differ, moved_on;
    uint64_t total, free, rest, untracked, others, unattributed, reading_t_ns;
    // Bytes of calls that were under way at the reading. It may or may not have had their memory:
    // it is part of the rest, or the rest is unknown.
    uint64_t calls_under_way;
    int with_host; // the GPU has no memory of its own: the rest is of the host's programs, too
    int is_shared; // a process has memory of another one here, or lends some
};

enum ct_processes_moment { CT_PROCESSES_OOM, CT_PROCESSES_PEAK, CT_PROCESSES_OWN };

struct ct_processes {
    struct ct_process *list;
    size_t count;
    struct ct_gpu *gpus;
    size_t gpu_count;
    // The moment. CT_PROCESSES_OWN: each process has its own.
    enum ct_processes_moment what;
    struct ct_host *hosts;
    size_t host_count;
    enum ct_alignment alignment;
    int has_moment;   // the processes have a moment in common, of which `t_ns` is the time
    size_t reference; // the process whose clock it is on
    size_t process;   // of the OOM
    int gpu;          // of the peak; -1: no memory was tracked
    uint64_t t_ns, event;
    uint64_t sum;     // tracked on the GPU of the peak
    int is_about_sum; // a curve was thinned, so that a higher sum may exist
};

// Groups the devices to GPUs and finds the moment; needs the scans of all processes.
void ct_processes_find_moment(struct ct_processes *all);
// The moment at which a process is described, and the last event that counts.
uint64_t ct_processes_moment_of(const struct ct_processes *all, size_t index, uint64_t *last);
// Sums the states for each GPU; needs those of all processes.
void ct_processes_sum(struct ct_processes *all);
void ct_processes_free(struct ct_processes *all);

#endif

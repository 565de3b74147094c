// SPDX-License-Identifier: Apache-2.0
// The state of a process and its devices after each event. No I/O: events go in, state comes out.
#ifndef CT_REPLAY_H
#define CT_REPLAY_H

#include <cutrace/live.h>

enum { CT_DEVICES = CT_MAX_DEVICES + 1 }; // the last one: device unknown

// A reading of a whole device's memory, with what this process was known to hold at that time.
struct ct_reading {
    int known;
    uint64_t free, total, used, tracked, t_ns;
};

struct ct_device_now {
    int seen;
    struct ct_reading last; // of either source
    uint64_t total;         // of cuMemGetInfo; 0 = unknown
    int free_known;
    uint64_t free_min, free_min_t_ns;
    int process_known;          // NVML told what this process uses
    uint64_t process_untracked; // of that, what its allocations do not explain
    uint64_t context_bytes, module_bytes, limit_bytes; // cost where it was measured
    int context_known, module_known, limit_known;
};

struct ct_replay {
    struct ct_live live;
    struct ct_device_now device[CT_DEVICES];
};

// `changed` (may be NULL) is told of what joins and leaves the live totals.
void ct_replay_init(struct ct_replay *r,
                    void (*changed)(void *user, const struct ct_object *object, int sign),
                    void *user);
void ct_replay_free(struct ct_replay *r);
// Gives back the memory of the objects; totals and readings stay. Nothing can be applied any more.
void ct_replay_forget(struct ct_replay *r);
void ct_replay_apply(struct ct_replay *r, const struct ct_event *e, uint64_t number);

static inline int ct_device_index(const struct ct_event *e) {
    return CT_HAS(e, device) && e->device >= 0 && e->device < CT_MAX_DEVICES ? e->device
                                                                             : CT_MAX_DEVICES;
}

// How a device's memory is used now. What is unknown has its flag unset.
struct ct_split {
    uint64_t
        tracked; // by allocations of this process: pools with what they reserve, no managed memory
    uint64_t managed; // of this process; where it resides is not known
    uint64_t
        used; // of the device by everybody: the last reading, moved on by what was tracked since
    uint64_t free, total;
    uint64_t untracked, others; // of this process; of other processes
    uint64_t unexplained;       // untracked + others, where only their sum is known
    int used_known, split_known;
    int moved_on; // tracked memory changed since the reading: `used` is inferred
    uint64_t reading_t_ns;
};

struct ct_split ct_replay_split(const struct ct_replay *r, int device);

#endif

// SPDX-License-Identifier: Apache-2.0
// Where a part of a trace that has warmed up begins (parts.h): what its replay's state has there
// beside what is live, to be compared with the end of the part before.
#ifndef CT_SEAM_H
#define CT_SEAM_H

#include "replay/replay.h"

// The state of a replay before an event, as far as it is small; a digest has the rest.
struct ct_small_state {
    uint64_t resets, gaps;
    int is_known;
    struct ct_readings readings;
    struct ct_open_ranges open;
    struct {
        // What is known of PyTorch's pools from earlier events than those of live objects.
        int seen;
        int64_t unreconciled;
        uint64_t own_reported;
    } pool[CT_DEVICES];
};

struct ct_small_state ct_small_state_copy(const struct ct_replay *r);

struct ct_seam {
    // Of the first event after the checkpoint (at most), and of the first one of the part's own.
    uint64_t warm_ns, t_ns;
    struct ct_small_state state;
    int pool_is_on;
};

// Before the part's first event of its own.
void ct_seam_take(struct ct_seam *s, const struct ct_replay *r, uint64_t warm_ns, uint64_t t_ns);
// Whether the part before ended in this state. What only calls tell that began before `warm_ns` may
// differ: a part that has such a call is not sound. So may times by less than a tick, if they are
// only shown.
int ct_seam_fits(const struct ct_seam *s, const struct ct_replay *before);
// Whether the number of contexts is known, too: a checkpoint lacks those that were not measured. If
// not, no event of the part may begin or end one.
int ct_seam_has_contexts(const struct ct_seam *s, const struct ct_replay *before);
// Makes readings and counts of the part what they are when the trace is read from the start.
void ct_seam_complete(const struct ct_seam *s, const struct ct_replay *before,
                      struct ct_readings *readings, uint64_t *resets, uint64_t *gaps);
// The exact time of the last reading before the seam, if `t_ns` is that one's; else `t_ns`.
uint64_t ct_seam_exact_reading_ns(const struct ct_seam *s, const struct ct_replay *before,
                                  int device, uint64_t t_ns);

#endif

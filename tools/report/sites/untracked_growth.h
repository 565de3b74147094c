// SPDX-License-Identifier: Apache-2.0
// Whether memory grows that no allocation of the process explains: graph executables, modules, what
// libraries keep; or, where NVML does not say what this process holds, memory of other processes.
//
// The least of each part of the time is judged like what a call site keeps (growth_shape.h).
#ifndef CT_UNTRACKED_GROWTH_H
#define CT_UNTRACKED_GROWTH_H

#include "analyze/untracked_curve.h"
#include "sites/growth_shape.h"

// Less is no growth: the driver takes and gives back some MiB by itself.
#define CT_UNTRACKED_GROWTH_LEAST (UINT64_C(16) << 20)

struct ct_untracked_growth {
    int known;        // the device was read in the time that is judged, at two times or more
    int is_own;       // it is this process's; else it is not known whose
    uint64_t bytes;   // at the last reading
    uint64_t read_ns; // when that was
    struct ct_growth_shape shape;
    // What calls were measured to take since the growth began; not known where that is in
    // overwritten time, or where more was measured than has grown (some of it was given back).
    int measured_known;
    uint64_t measured[CT_MEASURED_PARTS];
};

void ct_untracked_growth_find(struct ct_untracked_growth *g, const struct ct_untracked_curve *c,
                              const struct ct_growth_limits *limits);
// Whether it can have grown by so many bytes, whenever the start-up ended. (Then a pass that finds
// its end is worth its time.)
int ct_untracked_growth_is_possible(const struct ct_untracked_curve *c, uint64_t bytes);

#endif

// SPDX-License-Identifier: Apache-2.0
// Memory of a device that this process's allocations do not explain, at each reading of the device,
// in bounded memory: where there are more readings than CT_UNTRACKED_CURVE_POINTS, a point stands
// for those of a time and has the least of them.
//
// What managed memory could explain is left out: where it resides is not known. A device with the
// host's memory has no points, because its readings tell what the host's programs do.
#ifndef CT_UNTRACKED_CURVE_H
#define CT_UNTRACKED_CURVE_H

#include <cutrace/model/history.h>

#include "read/trace.h"
#include "replay/replay.h"

enum { CT_UNTRACKED_CURVE_POINTS = 1 << 12 };

struct ct_untracked_point {
    uint64_t t_ns, bytes;
    int measured_known; // not in the time whose events are overwritten
    uint64_t measured[CT_MEASURED_PARTS];
};

struct ct_untracked_points {
    struct ct_untracked_point *list; // in the order of time
    size_t count, room;
    uint64_t spacing_ns, last_ns; // last_ns: of the last reading
};

struct ct_untracked_curve {
    struct ct_untracked_points own; // of this process, at the reports of NVML that name it
    struct ct_untracked_points all; // of this process or of others, at all readings
};

// Begins with the coarse history, if events were overwritten. `device`: an index.
void ct_untracked_curve_begin(struct ct_untracked_curve *c, const struct ct_trace *t, int device);
// For each event, in their order, after ct_replay_apply.
void ct_untracked_curve_note(struct ct_untracked_curve *c, const struct ct_replay *r, int device,
                             const struct ct_event *e);
void ct_untracked_curve_free(struct ct_untracked_curve *c);

// How much of a device's used memory no allocation explains, at the last reading in each of a few
// equal parts of a time. The coarse history is not used: these are readings.

enum { CT_UNTRACKED_SHARE_PARTS = 8 };

struct ct_untracked_share {
    uint64_t from_ns, to_ns; // of the trace
    struct ct_untracked_share_device {
        int seen; // the trace tells of it
        struct ct_untracked_share_part {
            int known;
            struct ct_breakdown at; // the reading
        } part[CT_UNTRACKED_SHARE_PARTS];
    } device[CT_DEVICES];
};

// Hears the readings of a pass over all events of the trace.
struct ct_listener ct_untracked_share_listener(struct ct_untracked_share *s,
                                               const struct ct_trace *t);

#endif

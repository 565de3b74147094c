// SPDX-License-Identifier: Apache-2.0
// How much of a device's used memory no allocation explains, at the last reading in each of a few
// equal parts of a time. The coarse history is not used: these are readings.
#ifndef CT_UNTRACKED_SHARE_H
#define CT_UNTRACKED_SHARE_H

#include "replay/listeners.h"

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

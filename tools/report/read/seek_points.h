// SPDX-License-Identifier: Apache-2.0
// The places in a trace from which a state can be restored: complete checkpoints.
#ifndef CT_SEEK_POINTS_H
#define CT_SEEK_POINTS_H

#include "read/index.h"

struct ct_seek_point {
    size_t first, last; // the chunks of the checkpoint's first and last part
    uint64_t event;     // number of the first event after the checkpoint
};

struct ct_seek_points {
    struct ct_seek_point *list; // in the order of the trace
    size_t count, room;
};

// Lists the exact checkpoints that are whole and readable. The bodies must have been read once.
void ct_seek_points_find(struct ct_seek_points *p, const struct ct_index *index);
void ct_seek_points_free(struct ct_seek_points *p);

#endif

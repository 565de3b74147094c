// SPDX-License-Identifier: Apache-2.0
// The first pass over a recording: which segments are of one stream, by where PyTorch placed
// blocks, and the limit of PyTorch's own that its refusals show.
#ifndef CT_PLACEMENTS_H
#define CT_PLACEMENTS_H

#include "allocator/stream_groups.h"
#include "allocator/what_if.h"

// `total`: bytes of the recorded device. Sets the limit of `w` if no setting has it. Returns 0, or
// -1: there are more streams than a model follows. The caller frees the groups in both cases.
int ct_placements_find_groups(struct ct_stream_groups *g, struct ct_what_if *w, struct ct_trace *t,
                              uint64_t total);

#endif

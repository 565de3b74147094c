// SPDX-License-Identifier: Apache-2.0
// The second pass over a recording: each block is requested from every model, as large as it may
// have been, and what the models reserve is compared with what PyTorch reported.
#ifndef CT_MODEL_PASS_H
#define CT_MODEL_PASS_H

#include "allocator/stream_groups.h"
#include "allocator/what_if.h"

// `total`: bytes of the recorded device. `less`, `more`: by so much the driver has less or more
// than was recorded, but in the check. Fills in all of `w` but its state.
void ct_model_pass_run(struct ct_what_if *w, struct ct_trace *t, const struct ct_stream_groups *g,
                       uint64_t total, uint64_t less, uint64_t more);
// What PyTorch's own limit leaves in a model.
uint64_t ct_model_pass_allowed(const struct ct_what_if *w, int side, uint64_t total);

#endif

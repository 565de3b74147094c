// SPDX-License-Identifier: Apache-2.0
// PyTorch's pool in the JSON of `summary` and `frag`.
#ifndef CT_POOL_JSON_H
#define CT_POOL_JSON_H

#include "analyze/pool_curve.h"
#include "analyze/pool_growth.h"
#include "answer/view.h"
#include "base/json.h"

// Adds `module`: the path of a library, a string's id.
void ct_pool_json_add_module(struct ct_json *j, const struct ct_definitions *n, uint32_t module);
// Adds what its segments have and what of them is free. `bound`: as below.
void ct_pool_json_add_segments(struct ct_json *j, const struct ct_torch_pool_totals *f, int bound);
// Adds what of it sleeps.
void ct_pool_json_add_asleep(struct ct_json *j, const struct ct_torch_pool_totals *f);
// Adds the keys of a pool. `bound`: the largest free block is an upper bound.
void ct_pool_json_add_figures(struct ct_json *j, const struct ct_torch_pool_totals *f, int bound);
// Adds them as an object, or null where no block was seen.
void ct_pool_json_add_pool(struct ct_json *j, const char *key, const struct ct_torch_pool_totals *f,
                           int bound);
// Adds what PyTorch's requests of a range led to: `growth_causes`, `oom_causes`, `retries` and
// `retries_is_bound`. `known`: blocks were seen.
void ct_pool_json_add_growths(struct ct_json *j, const struct ct_view *v,
                              const struct ct_pool_growth_counts *g, int known);
// Adds `without_blocks`: the setting by which PyTorch has no blocks.
void ct_pool_json_add_without_blocks(struct ct_json *j, const struct ct_trace *t);
// Adds `other_streams`: what was free in segments of other streams than a request's.
void ct_pool_json_add_other_streams(struct ct_json *j, const struct ct_other_streams *o);
// Adds `fragmentation`: the curve of a device (an index).
void ct_pool_json_add_curve(struct ct_json *j, const struct ct_pool_curve *c, int device,
                            int bound);

#endif

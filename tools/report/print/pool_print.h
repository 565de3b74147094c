// SPDX-License-Identifier: Apache-2.0
// PyTorch's pool in the text of `summary`, `oom` and `frag`, and in the JSON of the first and last.
#ifndef CT_POOL_PRINT_H
#define CT_POOL_PRINT_H

#include "analyze/pool_curve.h"
#include "analyze/pool_growth.h"
#include "answer/view.h"
#include "base/json.h"

// "512.00 MiB", or "at most 512.00 MiB" where it is an upper bound.
struct ct_human_text ct_pool_text_largest(const struct ct_view *v, uint64_t bytes);
// External fragmentation: "0.87".
struct ct_human_text ct_pool_text_fragmentation(const struct ct_torch_pool_totals *f);
// num_alloc_retries: "34", or "at most 34" where it is an upper bound.
struct ct_human_text ct_pool_text_retries(const struct ct_view *v,
                                          const struct ct_pool_growth_counts *g);
// Prints the line of `summary` that says how the pool fared, if there is anything to say.
void ct_pool_text_print_summary(struct ct_view *v, const struct ct_torch_pool_totals *f,
                                const struct ct_pool_growth_counts *g);

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

// SPDX-License-Identifier: Apache-2.0
// PyTorch's pool in the text of `summary`, `oom` and `frag`.
#ifndef CT_POOL_TEXT_H
#define CT_POOL_TEXT_H

#include "analyze/pool_growth.h"
#include "answer/view.h"

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

#endif

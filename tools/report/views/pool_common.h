// SPDX-License-Identifier: Apache-2.0
// PyTorch's pools as text and as JSON.
#ifndef CT_POOL_PARTS_H
#define CT_POOL_PARTS_H

#include "analyze/held_segments.h"
#include "replay/torch_segments.h"
#include "views/common.h"

// "512.00 MiB", or "at most 512.00 MiB" where it is a bound.
struct ct_human_text ct_pool_text_largest(const struct ct_view *v, uint64_t bytes);
// "0.87": external fragmentation.
struct ct_human_text ct_pool_text_fragmentation(const struct ct_torch_pool_totals *f);
// "34", or "at most 34" where it is a bound: num_alloc_retries.
struct ct_human_text ct_pool_text_retries(const struct ct_view *v, const struct ct_pool_growth_counts *g);
// The lines of `summary`, and how many there are.
void ct_pool_text_print_summary(struct ct_view *v, const struct ct_torch_pool_totals *f,
                         const struct ct_pool_growth_counts *g);
unsigned ct_pool_text_summary_lines(const struct ct_view *v, const struct ct_torch_pool_totals *f,
                               const struct ct_pool_growth_counts *g);
// `module`: the path of a library, a string's id.
void ct_pool_json_add_module(struct ct_json *j, const struct ct_definitions *n, uint32_t module);
// The keys of a pool's figures.
void ct_pool_json_add_figures(struct ct_json *j, const struct ct_torch_pool_totals *f, int bound);
// The same as an object, or null where no block was seen.
void ct_pool_json_add_pool(struct ct_json *j, const char *key, const struct ct_torch_pool_totals *f, int bound);
// `retries` and `retries_is_bound`; known: blocks were seen.
void ct_pool_json_add_retries(struct ct_json *j, const struct ct_view *v, const struct ct_pool_growth_counts *g,
                     int known);
// `fragmentation`: a device's curve.
void ct_pool_json_add_curve(struct ct_json *j, const struct ct_pool_curve *c, int device, int bound);

#endif

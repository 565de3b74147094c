// SPDX-License-Identifier: Apache-2.0
// The part of frag on pools of the program (cutrace.h, NVTX heaps).
#ifndef CT_FRAG_PROGRAM_H
#define CT_FRAG_PROGRAM_H

#include "analyze/program_pools.h"
#include "answer/view.h"

// Below a head that names the moment. Prints nothing without a pool.
void ct_frag_program_print(struct ct_view *v, const struct ct_program_pools *p);
// A row below an account: how much they have handed out, and of it the largest. Nothing if it is 0.
void ct_frag_program_print_sum(struct ct_view *v, const struct ct_program_pools *p);
// The key `program_pools`; null without a pool.
void ct_frag_program_add_json(struct ct_view *v, struct ct_json *j,
                              const struct ct_program_pools *p);

#endif

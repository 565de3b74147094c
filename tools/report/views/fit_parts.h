// SPDX-License-Identifier: Apache-2.0
// The parts of fit that hold for vLLM and for PyTorch.
#ifndef CT_FIT_PARTS_H
#define CT_FIT_PARTS_H

#include "allocator/what_if.h"
#include "answer/fit_read.h"
#include "answer/view.h"
#include "base/json.h"

// The budget of vLLM, and how far its settings could go.

void ct_fit_vllm_print(struct ct_view *v, const struct ct_fit_vllm *f, int device);
// Adds the key `vllm` of a device; NULL: null.
void ct_fit_vllm_add_json(struct ct_json *j, const struct ct_fit_vllm *f);

// What other settings of PyTorch's allocator would have done, as text and JSON.

// Runs the model on a device with the settings of --allocator. Returns 0 without the option.
int ct_fit_allocator_run(struct ct_view *v, struct ct_what_if *w, int device);
void ct_fit_allocator_print(struct ct_view *v, const struct ct_what_if *w);
// NULL: there is no such question.
void ct_fit_allocator_add_json(struct ct_json *j, const struct ct_view *v,
                               const struct ct_what_if *w);

#endif

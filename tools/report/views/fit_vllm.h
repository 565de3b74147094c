// SPDX-License-Identifier: Apache-2.0
// The part of fit that holds for vLLM: its budget, and how far its settings could go.
#ifndef CT_FIT_VLLM_H
#define CT_FIT_VLLM_H

#include "answer/fit_read.h"
#include "base/json.h"

void ct_fit_vllm_print(struct ct_view *v, const struct ct_fit_vllm *f, int device);
// Adds the key `vllm` of a device; NULL: null.
void ct_fit_vllm_add_json(struct ct_json *j, const struct ct_fit_vllm *f);

#endif

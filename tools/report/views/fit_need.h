// SPDX-License-Identifier: Apache-2.0
// The part of fit that holds for any process: whether what it took would have fitted.
#ifndef CT_FIT_NEED_H
#define CT_FIT_NEED_H

#include "analyze/capacity.h"
#include "analyze/device_need.h"
#include "answer/view.h"
#include "base/json.h"

// Prints the answer for a device (an index), with what adds up to it.
void ct_fit_need_print(struct ct_view *v, const struct ct_device_need *n, int device,
                       const struct ct_capacity *recorded);
// Adds the keys of a device.
void ct_fit_need_add_json(struct ct_json *j, const struct ct_device_need *n, uint64_t capacity);

#endif

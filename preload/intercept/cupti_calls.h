// SPDX-License-Identifier: Apache-2.0
// From a call-back of CUPTI's to the body of the call's hook.
#ifndef CT_CUPTI_CALLS_H
#define CT_CUPTI_CALLS_H

#include <stdint.h>

#include "intercept/hook_table.h"

// CUPTI's id of the driver function of a row. 0: no call-backs are wanted. (Resolvers make no
// events; rows that are recorded only if they run out of memory are called at each launch of a
// kernel, where a call-back would cost more than the launch.)
uint32_t ct_cupti_calls_id(enum ct_hook_id hook);

// CUpti_CallbackFunc. `userdata`: the number of the subscription.
void ct_cupti_calls_back(void *userdata, int domain, uint32_t cbid, const void *cbdata);

#endif

// SPDX-License-Identifier: Apache-2.0
// See subscription.h.
#include "intercept/subscription.h"

_Atomic uint32_t ct_subscription_number;

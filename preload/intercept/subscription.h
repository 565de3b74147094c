// SPDX-License-Identifier: Apache-2.0
// The subscription at CUPTI that is under way, by its number.
#ifndef CT_SUBSCRIPTION_H
#define CT_SUBSCRIPTION_H

#include <stdatomic.h>
#include <stdint.h>

// Counted from 1; 0: none. Set by cupti.c alone.
extern _Atomic uint32_t ct_subscription_number;

static inline uint32_t ct_subscription_current(void) {
    return atomic_load_explicit(&ct_subscription_number, memory_order_acquire);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The places for calls that are between their passes, and the number of the subscription.
#include "intercept/passes.h"

#include "base/thread_places.h"

__thread struct ct_passes *ct_passes;

static struct ct_passes places[CT_THREAD_PLACES];
static struct ct_thread_places lent;

struct ct_passes *ct_passes_borrow(void) {
    const int at = ct_thread_places_borrow(&lent, &ct_passes);
    return at < 0 ? NULL : (ct_passes = &places[at]);
}

void ct_passes_give_back(void) {
    const int at = (int)(ct_passes - places);
    ct_passes = NULL;
    ct_thread_places_give_back(&lent, at);
}

_Atomic uint32_t ct_subscription_number;

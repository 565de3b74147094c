// SPDX-License-Identifier: Apache-2.0
#include "base/thread_places.h"

#include <stddef.h>

static int take(_Atomic uintptr_t *place, uintptr_t me) {
    uintptr_t owner = atomic_load_explicit(place, memory_order_relaxed);
    return owner == me ||
           (!owner && atomic_compare_exchange_strong_explicit(
                          place, &owner, me, memory_order_acquire, memory_order_relaxed));
}

int ct_thread_places_borrow(struct ct_thread_places *places, const void *own) {
    const uintptr_t me = (uintptr_t)own;
    const size_t first = (size_t)(me * UINT64_C(0x9E3779B97F4A7C15) >> 32); // Fibonacci hashing
    for (size_t i = 0; i < CT_THREAD_PLACES; i++)
        if (take(&places->owners[(first + i) % CT_THREAD_PLACES], me))
            return (int)((first + i) % CT_THREAD_PLACES);
    return -1;
}

void ct_thread_places_give_back(struct ct_thread_places *places, int at) {
    atomic_store_explicit(&places->owners[at], 0, memory_order_release);
}

// SPDX-License-Identifier: Apache-2.0
// The places for calls that are between their passes.
#include "intercept/passes.h"

#include <stdatomic.h>

// As many threads can be inside a call that takes or frees memory at a time. Places that were never
// lent cost no memory.
#define PLACES 1024u // a power of two

__thread struct ct_passes *ct_passes;

static struct ct_passes places[PLACES];
static _Atomic uintptr_t owners[PLACES]; // 0: free

// The address of a thread's own variable: no other living thread has it. A place that a thread did
// not give back, because it ended inside a call or is the parent's, serves the next thread there.
static uintptr_t own_address(void) {
    return (uintptr_t)&ct_passes;
}

static int take(size_t at, uintptr_t me) {
    uintptr_t owner = atomic_load_explicit(&owners[at], memory_order_relaxed);
    return owner == me ||
           (!owner && atomic_compare_exchange_strong_explicit(
                          &owners[at], &owner, me, memory_order_acquire, memory_order_relaxed));
}

struct ct_passes *ct_passes_borrow(void) {
    const uintptr_t me = own_address();
    const size_t first = (size_t)(me * UINT64_C(0x9E3779B97F4A7C15) >> 32); // Fibonacci hashing
    for (size_t i = 0; i < PLACES; i++)
        if (take((first + i) % PLACES, me))
            return ct_passes = &places[(first + i) % PLACES];
    return NULL;
}

void ct_passes_give_back(void) {
    const size_t at = (size_t)(ct_passes - places);
    ct_passes = NULL;
    atomic_store_explicit(&owners[at], 0, memory_order_release);
}

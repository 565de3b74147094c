// SPDX-License-Identifier: Apache-2.0
// Lends places of a fixed array to threads, for state that a thread has only now and then.
//
// Such state does not lie in the thread's own storage, because the loader has little of that for a
// library that it opens late (dlmopen). Places that were never lent cost no memory.
#ifndef CT_BASE_THREAD_PLACES_H
#define CT_BASE_THREAD_PLACES_H

#include <stdatomic.h>
#include <stdint.h>

#define CT_THREAD_PLACES 1024u // a power of two: as many threads can have a place at a time

struct ct_thread_places {
    _Atomic uintptr_t owners[CT_THREAD_PLACES]; // 0: free
};

// Lends the calling thread a place and returns its number; -1 if all are lent. `own` is the address
// of a variable in the thread's storage: no other living thread has it. A place that a thread did
// not give back before its end serves the next thread at that address. Any thread, without waiting.
// Not in a signal handler that interrupts either function.
int ct_thread_places_borrow(struct ct_thread_places *places, const void *own);
void ct_thread_places_give_back(struct ct_thread_places *places, int at);

#endif

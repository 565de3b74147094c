// SPDX-License-Identifier: Apache-2.0
// The two passes over a hook's body, for calls that are seen by CUPTI only.
//
// A body stands around the real call: it does something, calls `real`, and does the rest. CUPTI
// shows a call as two moments, its enter and its exit, and holds nothing between them. So the body
// runs twice: the first pass, at the enter, ends where the body calls `real`, which leaves the body
// by a longjmp. The second pass, at the exit, starts over; its `real` returns the call's result.
//
// What makes the passes one run of the body:
//   - ct_hook_enter of the second pass gives the body the event as the first pass left it.
//   - ct_hook_free_enter and ct_hook_measure_enter act in the first pass only.
//   - A body reads what it needs from before the call as CT_KEPT(value): in the second pass that is
//     the value of the first one. What else must not be done twice asks ct_pass_is_second.
#ifndef CT_PASSES_H
#define CT_PASSES_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "intercept/hook_scope.h"

enum ct_pass { CT_PASS_ONLY, CT_PASS_FIRST, CT_PASS_SECOND };

enum ct_pass_scope { CT_PASS_NOT_ENTERED, CT_PASS_ENTERED, CT_PASS_REFUSED };

// The state of a call that is between its passes: a thread borrows a place for it
// (base/thread_places.h) from the enter to the exit of the call.
struct ct_passes {
    _Alignas(64) enum ct_pass now;
    enum ct_pass_scope scope; // what ct_hook_enter of the first pass did
    uint32_t subscription;    // whose call is between the passes
    uint32_t correlation;     // CUPTI's number of that call
    CUresult result;          // of that call
    unsigned kept_count;      // of this pass
    uint64_t kept[2];         // what the first pass read
    struct ct_hook_call call; // as the first pass left it
    jmp_buf leave;
};
extern __thread struct ct_passes *ct_passes; // NULL: no call of this thread is between its passes

// Lends the calling thread a place: sets ct_passes and returns it; NULL if all are lent. Not in a
// signal handler that interrupts either function.
struct ct_passes *ct_passes_borrow(void);
void ct_passes_give_back(void);

static inline enum ct_pass ct_pass_now(void) {
    const struct ct_passes *const passes = ct_passes;
    return __builtin_expect(passes != NULL, 0) ? passes->now : CT_PASS_ONLY;
}

static inline int ct_pass_is_second(void) {
    return __builtin_expect(ct_pass_now() == CT_PASS_SECOND, 0);
}

// A value of up to 64 bits that the body reads before the real call; at most two in a body.
#define CT_KEPT(value)                                                                             \
    (__builtin_expect(ct_pass_now() == CT_PASS_ONLY, 1) ? (uint64_t)(value)                        \
     : ct_pass_is_second()                              ? ct_passes->kept[ct_passes->kept_count++] \
                           : (ct_passes->kept[ct_passes->kept_count++] = (value)))

// The subscription at CUPTI that is under way, by its number: counted from 1; 0: none. Set by
// cupti.c alone.
extern _Atomic uint32_t ct_subscription_number;

static inline uint32_t ct_subscription_current(void) {
    return atomic_load_explicit(&ct_subscription_number, memory_order_acquire);
}

#endif

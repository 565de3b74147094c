// SPDX-License-Identifier: Apache-2.0
// What the body of a driver hook does around the real call: entering and leaving the scope of a
// recorded call, and publishing its event.
//
// A body that allocates (maps, exports, ...) publishes its event after the call:
//     struct ct_hook_call call;
//     if (!ct_hook_enter_timed(&call, CT_ID_x, CT_OP_y))
//         return real(...);
//     const CUresult r = real(...);
//     ...fill call.event with what is known after the call...
//     ct_hook_alloc_exit(&call, r);
//     return r;
// A body that frees (unmaps, destroys, ...) publishes its event before the call: ct_hook_enter,
// fill call.event, ct_hook_free_enter, real, ct_hook_free_exit. A body without an event of its own:
// ct_hook_enter, real, ct_hook_called, ct_hook_leave. errno is what the real call left.
#ifndef CT_HOOK_SCOPE_H
#define CT_HOOK_SCOPE_H

#include <cutrace/format/format.h>

#include "intercept/hook_table.h"
#include "stack/enclosing.h"

// A recorded call in progress; lives in the body's frame.
struct ct_hook_call {
    struct ct_event event;
    uint64_t start_ns; // 0: the call is not timed
    enum ct_hook_id hook;
    int saved_errno;
    int *errno_at; // &errno, because finding it is a call
};

// Enters the scope: 1, and the event has op and api. 0: the call is not recorded, because tracing
// is off, or because the driver or an interposer makes it inside another recorded call (one
// allocation is one event), or because a signal handler makes it that has interrupted one: then it
// counts as lost. What follows a call that an exception or longjmp has left is recorded. After 0,
// no other function of the scope may be called.
int ct_hook_enter(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op);

// The same, and the call is timed, unless calls of this hook are quick (hook_scope.c).
int ct_hook_enter_timed(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op);

// How the call whose frame holds `address` stands to the recorded one that the thread has entered.
enum ct_enclosing ct_hook_scope_outer(uintptr_t address);

// What a body gets as the real function if it runs in two passes (passes.h): leaves the first one,
// returns the call's result in the second.
CUresult ct_hook_scope_real(void);

// Notes what the real call left in errno, right after it. The exits below do; a body that may leave
// without an event does it itself.
static inline void ct_hook_called(struct ct_hook_call *call) {
    call->saved_errno = *call->errno_at;
}

// Leaves the scope without an event.
void ct_hook_leave(struct ct_hook_call *call);

// Completes the event with result, time, duration and stack, with context and device if absent, and
// after a failed request for memory with the device's free memory. Publishes it and leaves.
void ct_hook_alloc_exit(struct ct_hook_call *call, CUresult result);

// free_enter publishes the event before the real call, because another thread may allocate at the
// same address as soon as the driver has freed it. free_exit amends the event if the call failed or
// its duration was sampled, and leaves.
void ct_hook_free_enter(struct ct_hook_call *call);
void ct_hook_free_exit(struct ct_hook_call *call, CUresult result);

// Around a real call that changes how much memory is free without an address (a module load, a
// graph instantiation): the event carries free memory before and after it. measure_exit replaces
// alloc_exit, or measure_after comes before it. measure_after with 0 reads nothing.
void ct_hook_measure_enter(struct ct_hook_call *call);
void ct_hook_measure_after(struct ct_hook_call *call, int read);
void ct_hook_measure_exit(struct ct_hook_call *call, CUresult result);

#endif

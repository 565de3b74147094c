// SPDX-License-Identifier: Apache-2.0
// The wrapper that this thread is inside of, so that a call which both a wrapper and CUPTI see is
// recorded once, by the wrapper.
#ifndef CT_WRAPPED_CALL_H
#define CT_WRAPPED_CALL_H

#include <stdatomic.h>
#include <stdint.h>

#include "intercept/hook_table.h"

// `frame` is an address in the wrapper's frame: an exception or longjmp may have left the wrapper,
// and then later calls come from frames that are not below it. `audit` is the audit's number if
// CUPTI has yet to show this call, else 0.
struct ct_wrapped_call {
    uintptr_t frame;
    uint32_t hook, audit;
};
extern __thread struct ct_wrapped_call ct_wrapped_call;

// The number of the audit that is under way (audit.h), 0: none.
extern _Atomic uint32_t ct_audit_number;

static inline struct ct_wrapped_call ct_wrapped_call_enter(enum ct_hook_id id) {
    const struct ct_wrapped_call outer = ct_wrapped_call;
    ct_wrapped_call =
        (struct ct_wrapped_call){(uintptr_t)__builtin_frame_address(0), id,
                                 atomic_load_explicit(&ct_audit_number, memory_order_relaxed)};
    return outer;
}

// For the audit: the wrapper returns to `caller`, and CUPTI has not shown its call, or an outer
// wrapper waits for the same call.
void ct_audit_wrapper_left(struct ct_wrapped_call *outer, const void *caller);

static inline CUresult ct_wrapped_call_leave(struct ct_wrapped_call outer, CUresult result,
                                             const void *caller) {
    if (__builtin_expect((ct_wrapped_call.audit | outer.audit) != 0, 0))
        ct_audit_wrapper_left(&outer, caller);
    ct_wrapped_call = outer;
    return result;
}

// Whether the thread is inside a wrapper of this hook; `frame` is an address in the asker's frame.
static inline int ct_wrapped_call_is(enum ct_hook_id id, uintptr_t frame) {
    return ct_wrapped_call.frame > frame && ct_wrapped_call.hook == id;
}

#endif

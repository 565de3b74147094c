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

// 0 once it is known that CUPTI is not asked for: then a wrapper costs no more than this question.
extern _Atomic int ct_wrapped_calls_are_noted;

// Returns the wrapper that the thread was inside of before.
struct ct_wrapped_call ct_wrapped_call_enter(enum ct_hook_id id, uintptr_t frame);

// For the audit: the wrapper returns `result` to `caller`; CUPTI has shown its call, or has not.
void ct_wrapped_call_leave(struct ct_wrapped_call outer, const void *caller, CUresult result);

// Returns the value of `call`, a call of a hook's body, and notes it around that. A call that is
// not noted is the wrapper's last one: the compiler makes it a jump.
#define CT_RETURN_WRAPPED(id, call)                                                           \
    do {                                                                                      \
        if (__builtin_expect(                                                                 \
                !atomic_load_explicit(&ct_wrapped_calls_are_noted, memory_order_relaxed), 1)) \
            return (call);                                                                    \
        const struct ct_wrapped_call outer =                                                  \
            ct_wrapped_call_enter(id, (uintptr_t)__builtin_frame_address(0));                 \
        const CUresult result = (call);                                                       \
        ct_wrapped_call_leave(outer, __builtin_return_address(0), result);                    \
        return result;                                                                        \
    } while (0)

// Whether the thread is inside a wrapper of this hook; `frame` is an address in the asker's frame.
static inline int ct_wrapped_call_is(enum ct_hook_id id, uintptr_t frame) {
    return ct_wrapped_call.frame > frame && ct_wrapped_call.hook == id;
}

#endif

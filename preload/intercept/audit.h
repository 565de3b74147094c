// SPDX-License-Identifier: Apache-2.0
// Calls that a wrapper and CUPTI both see: they are recorded once, and counted where CUTRACE_AUDIT
// asks for that.
#ifndef CT_AUDIT_H
#define CT_AUDIT_H

#include <stdatomic.h>
#include <stdint.h>

#include "intercept/hook_table.h"

// ---- the wrapper that a thread is inside of ---------------------------------------------------

// The wrapper that this thread is inside of, so that a call which both a wrapper and CUPTI see is
// recorded once, by the wrapper.

// `frame` is an address in the wrapper's frame: an exception or longjmp may have left the wrapper,
// and then later calls come from frames that are not below it. `audit` is the audit's number if
// CUPTI has yet to show this call, else 0.
struct ct_wrapped_call {
    uintptr_t frame;
    uint32_t hook, audit;
};
extern __thread struct ct_wrapped_call ct_wrapped_call;

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

// ---- the audit --------------------------------------------------------------------------------

// The audit (CUTRACE_AUDIT=1): which memory calls the wrappers saw and CUPTI did not, and the other
// way round, by function and by calling library. Any thread; no locks.

// CUPTI is asked for the calls of this hook. Before the audit begins.
void ct_audit_add_hook(enum ct_hook_id id);

// Calls that begin from now on are compared; 0: no longer.
void ct_audit_set_on(int on);

// CUPTI shows a call that this thread's wrapper is inside of.
void ct_audit_note_both(enum ct_hook_id id);

// CUPTI has shown a call that no wrapper saw. `caller` is its return address, NULL: not known.
// Counted without an audit, too.
void ct_audit_note_only_cupti(enum ct_hook_id id, const void *caller);

void ct_audit_publish_info(void);

#endif

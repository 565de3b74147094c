// SPDX-License-Identifier: Apache-2.0
// The scope of a recorded driver call, and the fields that every event carries.
#define _GNU_SOURCE
#include "intercept/hook_scope.h"

#include <errno.h>
#include <stdatomic.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/hot.h>
#include <cutrace/model/device_use.h>
#include <cutrace/model/failures.h>

#include "base/clock.h"
#include "base/options.h"
#include "intercept/cuda_context.h"
#include "intercept/device_info.h"
#include "intercept/passes.h"
#include "intercept/runtime_scope.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "stack/enclosing.h"
#include "stack/own_code.h"
#include "store/ring.h"

// The recorded call that this thread has entered and not left, as the address of its ct_hook_call;
// 0 outside. A driver call that is made inside of it, by the driver or by an interposer, belongs to
// it. An exception, a longjmp or another context leaves without saying so, and a signal handler's
// call belongs to nobody's: what this address means, the stack says (find_outer).
static __thread uintptr_t inside;
#define UNPUBLISHED 1u // set in it while the driver has returned and the event is not published

// ---- sampled durations ----------------------------------------------------------------------
// To time a call costs one more reading of the clock, a good part of a quick call's hook. Therefore
// only one in FREE_SAMPLE frees is timed. Allocations are timed, until QUICK_SAMPLE timed calls of
// a hook in a row were quicker than QUICK_NS (a memory pool's are); from then on one in
// QUICK_SAMPLE of the thread's quick calls is timed, until one of this hook takes longer.

#define FREE_SAMPLE 64
#define QUICK_SAMPLE 16
#define QUICK_NS 1000

static __thread unsigned frees, quick_allocs; // calls that were candidates for a sample
static _Atomic uint8_t quick_in_a_row[CT_HOOKS];

static int is_timed(enum ct_hook_id id) {
    return atomic_load_explicit(&quick_in_a_row[id], memory_order_relaxed) < QUICK_SAMPLE ||
           ++quick_allocs % QUICK_SAMPLE == 0;
}

static void set_duration(struct ct_hook_call *call) {
    struct ct_event *e = &call->event;
    _Atomic uint8_t *const quick = &quick_in_a_row[call->hook];
    CT_SET(e, duration_ns, e->t_ns > call->start_ns ? e->t_ns - call->start_ns : 0);
    const unsigned before = atomic_load_explicit(quick, memory_order_relaxed);
    const unsigned now = e->duration_ns >= QUICK_NS ? 0 : before + (before < QUICK_SAMPLE);
    if (now != before)
        atomic_store_explicit(quick, (uint8_t)now, memory_order_relaxed);
}

// ---- entering and leaving -------------------------------------------------------------------

// `inside` while the call is between its two passes: its frame is the driver's, whose address is
// not known, and all that is called until the second pass belongs to it. The second pass does not
// come if the subscription has ended meanwhile.
#define BETWEEN_PASSES CT_ENCLOSING_ANY

extern const char __start_ct_bodies[] __attribute__((visibility("hidden")));
extern const char __stop_ct_bodies[] __attribute__((visibility("hidden")));

static int is_body(uintptr_t pc) {
    return pc > (uintptr_t)__start_ct_bodies && pc <= (uintptr_t)__stop_ct_bodies;
}

CT_COLD enum ct_enclosing find_outer(uintptr_t address) {
    enum ct_enclosing found = CT_ENCLOSING_NONE;
    if (inside != BETWEEN_PASSES)
        found = ct_enclosing_find(address, inside, is_body);
    else if (ct_passes && ct_subscription_current() == ct_passes->subscription)
        found = ct_enclosing_find(address, inside, ct_own_code_is_passed);
    if (found == CT_ENCLOSING_NONE) {
        ct_ring_count_lost(inside != BETWEEN_PASSES && inside & UNPUBLISHED);
        inside = 0;
    }
    return found;
}

enum ct_enclosing ct_hook_scope_outer(uintptr_t address) {
    return inside ? find_outer(address) : CT_ENCLOSING_NONE;
}

// A call that comes before the one that was entered has been left. The driver's own belongs to that
// one. A signal handler's does not: it is lost, because to record it would take the way through the
// driver that may have been interrupted. So is one of which nobody can say.
CT_COLD int is_refused(uintptr_t address, enum ct_op op) {
    const enum ct_enclosing found = find_outer(address);
    const int is_reading = op == CT_OP_MEMORY_SAMPLE || op == CT_OP_POOL_SAMPLE;
    ct_ring_count_lost(ct_enclosing_is_lost(found) && !is_reading);
    return found != CT_ENCLOSING_NONE;
}

CUresult ct_hook_scope_real(void) {
    if (ct_passes->now == CT_PASS_SECOND)
        return ct_passes->result;
    if (ct_passes->scope == CT_PASS_ENTERED) {
        ct_passes->call = *(const struct ct_hook_call *)inside;
        inside = BETWEEN_PASSES;
    }
    _longjmp(ct_passes->leave, 1);
}

static int enter(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op);

CT_COLD int enter_pass(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op) {
    if (ct_passes->now == CT_PASS_SECOND && ct_passes->scope == CT_PASS_REFUSED)
        return 0;
    if (ct_passes->now == CT_PASS_SECOND && ct_passes->scope == CT_PASS_ENTERED) {
        *call = ct_passes->call;
        inside = (uintptr_t)call;
        return 1;
    }
    const int entered = enter(call, id, op);
    if (ct_passes->now == CT_PASS_FIRST)
        ct_passes->scope = entered ? CT_PASS_ENTERED : CT_PASS_REFUSED;
    return entered;
}

CT_WHOLE int ct_hook_enter(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op) {
    if (__builtin_expect(ct_pass_now() != CT_PASS_ONLY, 0))
        return enter_pass(call, id, op);
    return enter(call, id, op);
}

static inline int enter(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op) {
    ct_runtime_scope_count(op);
    if (__builtin_expect(inside != 0, 0) && is_refused((uintptr_t)call, op))
        return 0;
    if (!ct_tracing_is_on())
        return 0;
    inside = (uintptr_t)call;
    call->errno_at = &errno;
    call->saved_errno = *call->errno_at;
    call->start_ns = 0;
    call->hook = id;
    ct_event_init(&call->event);
    CT_SET(&call->event, op, op);
    const uint32_t runtime = ct_runtime_scope_api((uintptr_t)call);
    CT_SET(&call->event, api, runtime ? runtime : ct_hook_table_name(id));
    return 1;
}

CT_WHOLE int ct_hook_enter_timed(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op) {
    if (!ct_hook_enter(call, id, op))
        return 0;
    if (ct_pass_is_second() || !is_timed(id))
        return 1;
    call->start_ns = ct_clock_read_unordered();
    *call->errno_at = call->saved_errno;
    return 1;
}

void ct_hook_leave(struct ct_hook_call *call) {
    inside = 0;
    *call->errno_at = call->saved_errno;
}

// ---- allocation -----------------------------------------------------------------------------

static int is_allocation(uint32_t op) {
    return op == CT_OP_ALLOC || op == CT_OP_CREATE;
}

// The driver answers for the current context's device, which need not be the event's.
CT_COLD void set_free_memory(struct ct_event *e) {
    size_t free_bytes, total_bytes;
    uint64_t context;
    int device;
    ct_mem_info_note_failure();
    if (CT_HAS(e, device) && (!ct_context_current(&context, &device) || device != e->device))
        return;
    if (!ct_mem_info_read(&free_bytes, &total_bytes))
        return;
    CT_SET(e, free_bytes, free_bytes);
    CT_SET(e, total_bytes, total_bytes);
}

CT_WHOLE void ct_hook_alloc_exit(struct ct_hook_call *call, CUresult result) {
    struct ct_event *e = &call->event;
    uint64_t context;
    int device, current_device = CT_NO_DEVICE_ORDINAL;
    inside |= UNPUBLISHED;
    ct_hook_called(call);
    CT_SET(e, t_ns, ct_ring_now());
    CT_SET(e, result, (int32_t)result);
    if (call->start_ns)
        set_duration(call);
    if (!CT_HAS(e, context) && ct_context_current(&context, &device)) {
        current_device = device;
        CT_SET(e, context, context);
        if (!CT_HAS(e, device) && device != CT_NO_DEVICE_ORDINAL)
            CT_SET(e, device, device);
    }
    if (ct_event_uses_device(e))
        ct_device_info_publish(e->device);
    if (!ct_publish_wants(e)) {
        ct_hook_leave(call);
        return;
    }
    if (__builtin_expect(result != CUDA_SUCCESS, 0) && !CT_HAS(e, free_bytes) &&
        ct_event_is_failed_allocation(e))
        set_free_memory(e);
    CT_SET(e, stack, ct_capture_stack());
    inside = (uintptr_t)call; // from here on the ring knows (ct_ring_give_up)
    ct_publish(e);
    // The fast path: usually no sample is due, which is asked with values that are at hand.
    if (result == CUDA_SUCCESS && is_allocation(e->op) &&
        (current_device < 0 || current_device >= CT_MAX_ORDINALS ||
         ct_mem_info_sample_is_due(current_device, e->t_ns)))
        ct_mem_info_sample(e->api, 0);
    ct_hook_leave(call);
}

// ---- free -----------------------------------------------------------------------------------

CT_WHOLE void ct_hook_free_enter(struct ct_hook_call *call) {
    struct ct_event *e = &call->event;
    if (ct_pass_is_second())
        return;
    if (CT_OPTION_NUMBER(FREE_STACKS))
        CT_SET(e, stack, ct_capture_stack());
    CT_SET(e, result, 0);
    CT_SET(e, t_ns, ct_ring_now());
    ct_publish(e);
    call->start_ns = ++frees % FREE_SAMPLE ? 0 : e->t_ns;
    *call->errno_at = call->saved_errno;
}

CT_WHOLE void ct_hook_free_exit(struct ct_hook_call *call, CUresult result) {
    CT_ASSERT(CT_HAS(&call->event, t_ns));
    ct_hook_called(call);
    if (result != CUDA_SUCCESS || call->start_ns) {
        const uint64_t event_ns = call->event.t_ns;
        struct ct_event amend = {.present = 0};
        CT_SET(&amend, amends_ns, event_ns);
        if (call->start_ns)
            CT_SET(&amend, duration_ns, ct_ring_now() - call->start_ns);
        if (result != CUDA_SUCCESS) {
            CT_SET(&amend, result, (int32_t)result);
            CT_SET(&amend, stack, ct_capture_stack());
        }
        ct_publish_amend(&amend);
    }
    ct_hook_leave(call);
}

// ---- free memory before and after -----------------------------------------------------------

void ct_hook_measure_enter(struct ct_hook_call *call) {
    size_t free_bytes, total_bytes;
    if (ct_pass_is_second())
        return;
    if (ct_mem_info_read(&free_bytes, &total_bytes))
        CT_SET(&call->event, free_before_bytes, free_bytes);
    call->start_ns = ct_ring_now();
    *call->errno_at = call->saved_errno;
}

void ct_hook_measure_after(struct ct_hook_call *call, int read) {
    size_t free_bytes, total_bytes;
    ct_hook_called(call);
    if (read && ct_mem_info_read(&free_bytes, &total_bytes)) {
        CT_SET(&call->event, free_bytes, free_bytes);
        CT_SET(&call->event, total_bytes, total_bytes);
    }
    *call->errno_at = call->saved_errno;
}

void ct_hook_measure_exit(struct ct_hook_call *call, CUresult result) {
    ct_hook_measure_after(call, 1);
    ct_hook_alloc_exit(call, result);
}

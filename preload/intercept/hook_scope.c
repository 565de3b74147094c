// SPDX-License-Identifier: Apache-2.0
// The scope of a driver call: entering and leaving it, and what every event carries.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>

#include <cutrace/format/hot.h>

#include "base/clock.h"
#include "base/options.h"
#include "intercept/driver.h"
#include "intercept/hooks.h"

// The recorded driver call that this thread is in, as the address of its ct_hook_call, 0 outside of any. What a
// driver or an interposer calls from inside one is part of it. The address tells when a call was left by an
// exception or longjmp: nothing that is still inside has its frame at that height or above.
static __thread uintptr_t inside;
static __thread unsigned gives, takes; // for the sampled durations
#define GIVE_SAMPLE 64                 // one in so many give-backs is timed

// A call that takes is timed, unless calls of its kind are over at once (a pool's): to read the clock once more would be
// a good part of such a call. Then one in so many is timed, until one takes longer.
#define QUICK_NS 1000
#define QUICK_SAMPLE 16
static _Atomic uint8_t quick[CT_HOOKS]; // of the calls timed last: so many were quick in a row

static _Atomic uint64_t sampled_ns[CT_MAX_ORDINALS]; // last memory-sample of a device

static int is_due(int device, uint64_t now) {
    const uint64_t last = atomic_load_explicit(&sampled_ns[device], memory_order_relaxed);
    const uint64_t interval = CT_OPTION_NUMBER(SAMPLE_MS);
    return !interval || (now >= last && now - last >= interval); // another thread's may be newer
}

CT_WHOLE int ct_hook_enter(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op) {
    ct_runtime_scope_count(op);
    if ((inside && (uintptr_t)call < inside) || !ct_tracing_is_on())
        return 0;
    inside = (uintptr_t)call;
    call->errno_at = &errno;
    call->saved_errno = *call->errno_at;
    call->start_ns = 0;
    call->hook = id;
    ct_event_init(&call->event);
    CT_SET(&call->event, op, op);
    const uint32_t runtime = ct_runtime_scope_api();
    CT_SET(&call->event, api, runtime ? runtime : ct_hook_table_name(id));
    return 1;
}

CT_WHOLE int ct_hook_enter_timed(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op) {
    if (!ct_hook_enter(call, id, op))
        return 0;
    if (atomic_load_explicit(&quick[id], memory_order_relaxed) >= QUICK_SAMPLE &&
        ++takes % QUICK_SAMPLE)
        return 1;
    call->start_ns = ct_clock_read_unordered();
    *call->errno_at = call->saved_errno;
    return 1;
}

static void set_duration(struct ct_hook_call *call) {
    struct ct_event *e = &call->event;
    CT_SET(e, duration_ns, e->t_ns > call->start_ns ? e->t_ns - call->start_ns : 0);
    const unsigned before = atomic_load_explicit(&quick[call->hook], memory_order_relaxed);
    const unsigned now = e->duration_ns >= QUICK_NS ? 0 : before + (before < QUICK_SAMPLE);
    if (now != before)
        atomic_store_explicit(&quick[call->hook], (uint8_t)now, memory_order_relaxed);
}

void ct_hook_leave(struct ct_hook_call *call) {
    inside = 0;
    *call->errno_at = call->saved_errno;
}

// ---- taking ---------------------------------------------------------------------------------

static int is_allocation(uint32_t op) {
    return op == CT_OP_ALLOC || op == CT_OP_CREATE;
}

CT_COLD void set_free(struct ct_event *e) {
    size_t free_bytes, total_bytes;
    if (!ct_mem_info_read(&free_bytes, &total_bytes))
        return;
    CT_SET(e, free_bytes, free_bytes);
    CT_SET(e, total_bytes, total_bytes);
}

CT_WHOLE void ct_hook_alloc_exit(struct ct_hook_call *call, CUresult result) {
    struct ct_event *e = &call->event;
    uint64_t context;
    int device;
    call->saved_errno = *call->errno_at;
    CT_SET(e, t_ns, ct_ring_now());
    CT_SET(e, result, (int32_t)result);
    if (call->start_ns)
        set_duration(call);
    int here = CT_NO_DEVICE_ORDINAL;
    if (!CT_HAS(e, context) && ct_context_current(&context, &device)) {
        here = device;
        CT_SET(e, context, context);
        if (!CT_HAS(e, device) && device != CT_NO_DEVICE_ORDINAL)
            CT_SET(e, device, device);
    }
    if (CT_HAS(e, device))
        ct_device_info_publish(e->device);
    if (!ct_publish_wants(e)) {
        ct_hook_leave(call);
        return;
    }
    if (__builtin_expect(result != CUDA_SUCCESS, 0) && is_allocation(e->op))
        set_free(e);
    CT_SET(e, stack, ct_capture_stack());
    ct_publish(e);
    // Whether a sample is due is asked with what is known already: it is the rule that none is.
    if (result == CUDA_SUCCESS && is_allocation(e->op) &&
        (here < 0 || here >= CT_MAX_ORDINALS || is_due(here, e->t_ns)))
        ct_mem_info_sample(call, 0);
    ct_hook_leave(call);
}

// ---- giving back ----------------------------------------------------------------------------

CT_WHOLE void ct_hook_free_enter(struct ct_hook_call *call) {
    struct ct_event *e = &call->event;
    if (CT_OPTION_NUMBER(FREE_STACKS))
        CT_SET(e, stack, ct_capture_stack());
    CT_SET(e, result, 0);
    CT_SET(e, t_ns, ct_ring_now());
    ct_publish(e);
    call->start_ns = ++gives % GIVE_SAMPLE ? 0 : e->t_ns;
    *call->errno_at = call->saved_errno;
}

CT_WHOLE void ct_hook_free_exit(struct ct_hook_call *call, CUresult result) {
    call->saved_errno = *call->errno_at;
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

// ---- how much memory is free ----------------------------------------------------------------

__attribute__((noinline)) int ct_mem_info_read(size_t *free_bytes, size_t *total_bytes) {
    // Behind our wrapper, so that a limiter in the chain is asked: it is its answer that binds.
    ct_fn_cuMemGetInfo_v2 *mem_info = (ct_fn_cuMemGetInfo_v2 *)ct_next_function(CT_ID_cuMemGetInfo_v2);
    return mem_info && !ct_stream_any_capturing() && mem_info(free_bytes, total_bytes) == CUDA_SUCCESS;
}

void ct_hook_measure_enter(struct ct_hook_call *call) {
    size_t free_bytes, total_bytes;
    if (ct_mem_info_read(&free_bytes, &total_bytes))
        CT_SET(&call->event, free_before_bytes, free_bytes);
    call->start_ns = ct_ring_now();
    *call->errno_at = call->saved_errno;
}

// After the real call: completes what ct_hook_measure_enter began and publishes.
void ct_hook_measure_exit(struct ct_hook_call *call, CUresult result) {
    size_t free_bytes, total_bytes;
    call->saved_errno = *call->errno_at;
    if (ct_mem_info_read(&free_bytes, &total_bytes)) {
        CT_SET(&call->event, free_bytes, free_bytes);
        CT_SET(&call->event, total_bytes, total_bytes);
    }
    *call->errno_at = call->saved_errno;
    ct_hook_alloc_exit(call, result);
}

static int sample_is_due(int device, uint64_t now) {
    _Atomic uint64_t *at = &sampled_ns[device];
    uint64_t last = atomic_load_explicit(at, memory_order_relaxed);
    return is_due(device, now) && atomic_compare_exchange_strong_explicit(
                                      at, &last, now, memory_order_relaxed, memory_order_relaxed);
}

static void publish_sample(const struct ct_hook_call *call, uint64_t context, int device,
                           size_t free_bytes, size_t total_bytes) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, api, call->event.api);
    CT_SET(&e, device, device);
    CT_SET(&e, context, context);
    CT_SET(&e, free_bytes, free_bytes);
    CT_SET(&e, total_bytes, total_bytes);
    ct_publish(&e);
}

__attribute__((noinline)) void ct_mem_info_sample(struct ct_hook_call *call, int force) {
    uint64_t context;
    int device;
    size_t free_bytes, total_bytes;
    if (!ct_context_current(&context, &device) || device < 0 || device >= CT_MAX_ORDINALS)
        return;
    const int due = sample_is_due(device, ct_ring_now());
    if ((due || force) && ct_mem_info_read(&free_bytes, &total_bytes))
        publish_sample(call, context, device, free_bytes, total_bytes);
}

void ct_mem_info_sample_given(struct ct_hook_call *call, size_t free_bytes, size_t total_bytes) {
    uint64_t context;
    int device;
    if (ct_context_current(&context, &device) && device >= 0 && device < CT_MAX_ORDINALS &&
        sample_is_due(device, ct_ring_now()))
        publish_sample(call, context, device, free_bytes, total_bytes);
}

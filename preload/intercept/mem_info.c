// SPDX-License-Identifier: Apache-2.0
// Asks for free memory and samples it.
#define _GNU_SOURCE
#include "intercept/mem_info.h"

#include <stdatomic.h>

#include <cutrace/format/assert.h>

#include "base/options.h"
#include "intercept/cuda_context.h"
#include "intercept/driver.h"
#include "intercept/next_functions.h"
#include "intercept/stream.h"
#include "record/publish.h"
#include "store/ring.h"

// Of each device: the time of its last memory-sample.
static _Atomic uint64_t sampled_ns[CT_MAX_ORDINALS];

// The thread has met a failed allocation since its last memory-sample.
static __thread int has_failed;

void ct_mem_info_note_failure(void) {
    has_failed = 1;
}

// The next definition is asked, not the driver: if a limiter is in the chain, its answer is the one
// that the program lives with.
__attribute__((noinline)) int ct_mem_info_read(size_t *free_bytes, size_t *total_bytes) {
    ct_fn_cuMemGetInfo_v2 *const mem_info =
        (ct_fn_cuMemGetInfo_v2 *)ct_next_function(CT_ID_cuMemGetInfo_v2);
    return mem_info && !ct_stream_any_capturing() &&
           CT_ASK(mem_info(free_bytes, total_bytes)) == CUDA_SUCCESS;
}

// `now_ns` may lie before the last sample, which another thread has taken.
int ct_mem_info_sample_is_due(int device, uint64_t now_ns) {
    CT_ASSERT(device >= 0 && device < CT_MAX_ORDINALS);
    const uint64_t last = atomic_load_explicit(&sampled_ns[device], memory_order_relaxed);
    const uint64_t interval = CT_OPTION_NUMBER(SAMPLE_MS);
    return !interval || (now_ns >= last && now_ns - last >= interval);
}

// Of several threads that find the interval over, one publishes the sample.
static int claim_sample(int device, uint64_t now_ns) {
    _Atomic uint64_t *const sampled = &sampled_ns[device];
    uint64_t last = atomic_load_explicit(sampled, memory_order_relaxed);
    return ct_mem_info_sample_is_due(device, now_ns) &&
           atomic_compare_exchange_strong_explicit(sampled, &last, now_ns, memory_order_relaxed,
                                                   memory_order_relaxed);
}

static void publish_sample(uint32_t api, uint64_t context, int device, size_t free_bytes,
                           size_t total_bytes) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, api, api);
    CT_SET(&e, device, device);
    CT_SET(&e, context, context);
    CT_SET(&e, free_bytes, free_bytes);
    CT_SET(&e, total_bytes, total_bytes);
    ct_publish(&e);
}

__attribute__((noinline)) void ct_mem_info_sample(uint32_t api, int force) {
    uint64_t context;
    int device;
    size_t free_bytes, total_bytes;
    if (!ct_context_current(&context, &device) || device < 0 || device >= CT_MAX_ORDINALS)
        return;
    const int claimed = claim_sample(device, ct_ring_now());
    if ((claimed || force) && ct_mem_info_read(&free_bytes, &total_bytes))
        publish_sample(api, context, device, free_bytes, total_bytes);
}

void ct_mem_info_sample_given(uint32_t api, size_t free_bytes, size_t total_bytes) {
    uint64_t context;
    int device;
    if (!ct_context_current(&context, &device) || device < 0 || device >= CT_MAX_ORDINALS)
        return;
    if (claim_sample(device, ct_ring_now()) || has_failed)
        publish_sample(api, context, device, free_bytes, total_bytes);
    has_failed = 0;
}

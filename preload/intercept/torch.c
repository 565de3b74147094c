// SPDX-License-Identifier: Apache-2.0
// Records what PyTorch's allocator reports to its profiler of each block, and hands the report on.
//
// libc10_cuda calls these functions of libc10 at the end of every allocation and every free,
// whether or not a profiler runs, and for every failed allocation (CUDACachingAllocator.cpp:
// alloc_found_block, free, malloc).
#define _GNU_SOURCE
#include <errno.h>

#include <cutrace/format/format.h>
#include <cutrace/format/hot.h>

#include "base/options.h"
#include "intercept/torch.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"

// The calls come under the allocator's mutex of the device, mostly without the GIL. Two invariants
// follow:
// 1. A report does not wait: it takes no lock, makes no system call and allocates no host memory.
//    The report of an OOM, which an exception follows, waits for a bounded time until the line on
//    stderr is printed (record/publish.c).
// 2. The events of a device are in order. The report of a free ends before the block's address can
//    be allocated again, and the times of the events are read inside the reports (store/ring.c says
//    why times of different threads can be compared).

struct totals {
    uint64_t allocated, reserved;
};

static void set_common(struct ct_event *e, struct ct_torch_device device,
                       const struct totals *totals) {
    if (device.index >= 0)
        CT_SET(e, device, (int32_t)device.index);
    if (totals) {
        CT_SET(e, allocated_bytes, totals->allocated);
        CT_SET(e, reserved_bytes, totals->reserved);
    }
}

// The stream that was current when a block was requested. `caller` is NULL where it cannot be read.
static void set_stream(struct ct_event *e, struct ct_torch_device device, const void *caller) {
    const uint64_t stream = caller ? ct_torch_streams_current(device, caller) : CT_STREAM_UNKNOWN;
    if (stream)
        CT_SET(e, stream, stream);
}

// `bytes` is negative when the block is freed. Every block is recorded, whatever CUTRACE_SAMPLE and
// CUTRACE_MIN_SIZE say: blocks tile their segment, and the layout of a segment with unknown blocks
// cannot be reconstructed.
CT_WHOLE static __attribute__((noinline)) void record_block(const void *ptr, int64_t bytes,
                                                            struct ct_torch_device device,
                                                            const struct totals *totals,
                                                            const void *caller) {
    struct ct_event e;
    if (device.type != CT_TORCH_CUDA || !bytes || !ct_tracing_is_on())
        return;
    const int saved = errno;
    ct_event_init(&e);
    CT_SET(&e, op, bytes > 0 ? CT_OP_BLOCK_ALLOC : CT_OP_BLOCK_FREE);
    CT_SET(&e, ptr, (uintptr_t)ptr);
    CT_SET(&e, bytes, bytes > 0 ? (uint64_t)bytes : 0 - (uint64_t)bytes);
    set_common(&e, device, totals);
    if (bytes > 0)
        set_stream(&e, device, caller);
    if (bytes > 0 || CT_OPTION_NUMBER(FREE_STACKS))
        CT_SET(&e, stack, ct_capture_python_stack());
    ct_publish(&e);
    errno = saved;
}

// PyTorch reports an allocation as failed when the driver fails it, and when it exceeds a limit of
// PyTorch's own.
static void record_oom(int64_t bytes, struct ct_torch_device device, const struct totals *totals,
                       const void *caller) {
    struct ct_event e;
    if (device.type != CT_TORCH_CUDA || !ct_tracing_is_on())
        return;
    const int saved = errno;
    ct_event_init(&e);
    CT_SET(&e, op, CT_OP_BLOCK_OOM);
    CT_SET(&e, bytes, (uint64_t)bytes);
    set_common(&e, device, totals);
    set_stream(&e, device, caller);
    CT_SET(&e, stack, ct_capture_stack());
    ct_publish(&e);
    errno = saved;
}

// ---- the exported functions -----------------------------------------------------------------

#define CT_TOTALS(allocated, reserved) \
    (&(struct totals){(uint64_t)(allocated), (uint64_t)(reserved)})
#define CT_TORCH_BLOCK(ptr, bytes, device) record_block(ptr, bytes, device, NULL, NULL)
#define CT_TORCH_BLOCK_TOTALS(ptr, bytes, allocated, reserved, device) \
    record_block(ptr, bytes, device, CT_TOTALS(allocated, reserved), NULL)
#define CT_TORCH_BLOCK_STREAM(ptr, bytes, allocated, reserved, device) \
    record_block(ptr, bytes, device, CT_TOTALS(allocated, reserved), __builtin_return_address(0))
#define CT_TORCH_OOM(bytes, allocated, reserved, device) \
    record_oom(bytes, device, CT_TOTALS(allocated, reserved), NULL)
#define CT_TORCH_OOM_STREAM(bytes, allocated, reserved, device) \
    record_oom(bytes, device, CT_TOTALS(allocated, reserved), __builtin_return_address(0))

#define CT_TORCH(symbol, params, args, effect) \
    typedef void ct_fn_##symbol params;        \
    void symbol params;
#include "intercept/torch_hooks.def"

// CT_WHOLE puts the table look-up of ct_libc10_next into each of them.
#define CT_TORCH(symbol, params, args, effect)                           \
    CT_WHOLE __attribute__((visibility("default"))) void symbol params { \
        effect;                                                          \
        ct_fn_##symbol *const real = (ct_fn_##symbol *)ct_libc10_next(   \
            CT_TORCH_ID_##symbol, device, __builtin_return_address(0));  \
        if (real)                                                        \
            real args;                                                   \
    }
#include "intercept/torch_hooks.def"

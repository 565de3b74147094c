// SPDX-License-Identifier: Apache-2.0
// The bodies of the rows of hooks.def that say themselves what they do: one generator for each kind
// of row, and the words of their effects.
#define _GNU_SOURCE
#include <stdatomic.h>

#include "intercept/device_info.h"
#include "intercept/driver.h"
#include "intercept/hook_scope.h"
#include "intercept/passes.h"
#include "intercept/stream.h"
#include "store/name_table.h"

// ---- the words of an effect -----------------------------------------------------------------
// Each sets a field of the event `e`. What a call has put out is read after a success only.

#define PTR(address) CT_SET(e, ptr, (uintptr_t)(address));
#define BYTES(n) CT_SET(e, bytes, n);
#define OFFSET(n) CT_SET(e, offset, n);
#define HANDLE(of) CT_SET(e, handle, (uintptr_t)(of));
#define STREAM(of) CT_SET(e, stream, (uintptr_t)(of));
#define POOL(of) CT_SET(e, pool, (uintptr_t)(of));
#define CONTEXT(of) CT_SET(e, context, (uintptr_t)(of));
#define DEVICE(ordinal) CT_SET(e, device, ordinal);
#define SPACE(of) CT_SET(e, space, of);
#define FLAGS(of) CT_SET(e, flags, of);
#define TEXT(...) CT_SET(e, text, ct_name_intern_format(__VA_ARGS__));
#define IF(condition, words) \
    if (condition) {         \
        words                \
    }
#define OUT(words) IF(r == CUDA_SUCCESS, words)
#define SET(effect) \
    do {            \
        effect      \
    } while (0)

#define DEVICE_OF(location) \
    IF((location).type == CU_MEM_LOCATION_TYPE_DEVICE, DEVICE((location).id))
#define LOCATION(of)                                                                            \
    SPACE((of).type == CU_MEM_LOCATION_TYPE_DEVICE ? (uint32_t)CT_SPACE_DEVICE : CT_SPACE_HOST) \
    DEVICE_OF(of)
#define GRAPHICS(count, resources) IF((resources) && (count), HANDLE((resources)[0]))
#define ARRAY(bytes, flags) set_array(e, bytes, flags);
#define TILES(list, count) set_tiles(e, list, count);
#define OPENED_DEVICE(ptr) set_opened_device(e, ptr);
#define IMPORTED_DEVICE(handle) set_imported_device(e, handle);

// ---- arrays ---------------------------------------------------------------------------------

// Memory is bound to such an array later, by a map call.
#define UNBACKED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static uint64_t element_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    // Block-compressed and planar formats have no bytes per element.
    default:
        return 0;
    }
}

static uint64_t at_least_1(uint64_t n) {
    return n ? n : 1;
}

static uint64_t array_bytes(const CUDA_ARRAY_DESCRIPTOR *d) {
    return d ? element_bytes(d->Format) * d->NumChannels * d->Width * at_least_1(d->Height) : 0;
}

// All levels of a mipmapped array; an array without them has one. The driver limits the number of
// levels to what the largest side allows (cuda.h).
static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) {
    const uint64_t side = d ? d->Width | d->Height | d->Depth : 0;
    uint64_t bytes = 0;
    for (unsigned int i = 0; d && i < 64 && (i == 0 || (i < levels && side >> i)); i++)
        bytes += element_bytes(d->Format) * d->NumChannels * at_least_1(d->Width >> i) *
                 at_least_1(d->Height >> i) * at_least_1(d->Depth >> i);
    return bytes;
}

static unsigned int array_flags(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    return d ? d->Flags : 0;
}

static void set_array(struct ct_event *e, uint64_t bytes, unsigned int flags) {
    const int deferred = (flags & UNBACKED) != 0;
    if (bytes || deferred)
        CT_SET(e, bytes, deferred ? 0 : bytes);
    CT_SET(e, space, CT_SPACE_DEVICE);
    CT_SET(e, flags, (uint32_t)(CT_FLAG_ARRAY | (deferred ? (unsigned)CT_FLAG_DEFERRED : 0)));
}

// The call binds tiles of sparse arrays, or unbinds them where the memory handle is NULL; either is
// one event. Only the sizes of mip tails are known.
static void set_tiles(struct ct_event *e, const CUarrayMapInfo *list, unsigned int count) {
    uint64_t bytes = 0;
    for (unsigned int i = 0; list && i < count; i++)
        if (list[i].subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
            bytes += list[i].subresource.miptail.size;
    if (bytes)
        CT_SET(e, bytes, bytes);
    if (list && count)
        CT_SET(e, handle, list[0].memHandle.memHandle);
}

// ---- where memory of others lies --------------------------------------------------------------

// The memory lies on the device of the process that allocated it, not on the thread's. (The
// question is allowed during a capture: Triton asks it for each pointer of each launch.)
static void set_opened_device(struct ct_event *e, CUdeviceptr ptr) {
    int device;
    if (ct_driver()->pointer_attribute &&
        CT_ASK(ct_driver()->pointer_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr)) ==
            CUDA_SUCCESS)
        CT_SET(e, device, device);
}

// Memory lies where it was created, whatever the context of the thread that imports it. The driver
// has no answer for a multicast object. Whether a capture forbids the question is not documented.
static void set_imported_device(struct ct_event *e, CUmemGenericAllocationHandle handle) {
    CUmemAllocationProp prop = {0};
    CUstreamCaptureMode mode;
    if (!ct_driver()->handle_properties || !ct_stream_relax_enter(&mode))
        return;
    const CUresult r = ct_driver()->handle_properties(&prop, handle);
    ct_stream_relax_leave(&mode);
    if (r == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        CT_SET(e, device, prop.location.id);
}

// ---- look-ups of code -------------------------------------------------------------------------

// With lazy loading, CUDA's default, the code of a module takes device memory only when it is
// needed first, and that may be a call that looks it up.
//
// A call that runs out of memory is always recorded. One that takes memory is recorded as a load of
// a module, if free memory was read before it and after it. Programs look up a function once, or
// before each launch; then two readings, some microseconds, would cost more than the call. So after
// IDLE_CALLS calls in a row that took nothing, one in IDLE_CALLS is measured, until one takes
// memory again.

#define IDLE_CALLS 16

static _Atomic uint8_t idle_in_a_row[CT_HOOKS]; // measured calls that took nothing
static __thread unsigned idle_look_ups;         // calls that were candidates for a measurement

static int is_measured(enum ct_hook_id id) {
    return atomic_load_explicit(&idle_in_a_row[id], memory_order_relaxed) < IDLE_CALLS ||
           ++idle_look_ups % IDLE_CALLS == 0;
}

static int took_memory(const struct ct_hook_call *call) {
    const struct ct_event *e = &call->event;
    const int taken = CT_HAS(e, free_before_bytes) && CT_HAS(e, free_bytes) &&
                      e->free_bytes < e->free_before_bytes;
    _Atomic uint8_t *const idle = &idle_in_a_row[call->hook];
    const unsigned before = atomic_load_explicit(idle, memory_order_relaxed);
    const unsigned now = taken ? 0 : before + (before < IDLE_CALLS);
    if (now != before)
        atomic_store_explicit(idle, (uint8_t)now, memory_order_relaxed);
    return taken;
}

static int look_up_enter(struct ct_hook_call *call) {
    const int measured = (int)CT_KEPT(is_measured(call->hook));
    if (measured)
        ct_hook_measure_enter(call);
    return measured;
}

static void look_up_exit(struct ct_hook_call *call, CUresult r, int measured) {
    ct_hook_measure_after(call, measured || r == CUDA_ERROR_OUT_OF_MEMORY);
    const int is_load = measured && r == CUDA_SUCCESS && took_memory(call);
    if (is_load || r == CUDA_ERROR_OUT_OF_MEMORY)
        ct_hook_alloc_exit(call, r);
    else
        ct_hook_leave(call);
}

// ---- calls that only count if they fail -------------------------------------------------------

// Streams, events, launches, questions about kernels take memory beside their work. Only a call
// that runs out of memory is recorded, as a memory-sample with its result. What successful calls
// take is small or rare, and shows as untracked memory. Measuring would cost more than a launch.
CT_BODY static void record_oom(enum ct_hook_id id) {
    struct ct_hook_call call;
    if (ct_hook_enter(&call, id, CT_OP_MEMORY_SAMPLE))
        ct_hook_measure_exit(&call, CUDA_ERROR_OUT_OF_MEMORY);
}

// ---- the bodies -------------------------------------------------------------------------------

#define CT_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_AFTER_HOOK(symbol, base, abi, ptsz, params, args, operation, effect) \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {             \
        struct ct_hook_call call;                                               \
        struct ct_event *const e = &call.event;                                 \
        if (!ct_hook_enter_timed(&call, CT_ID_##symbol, CT_OP_##operation))     \
            return real args;                                                   \
        const CUresult r = real args;                                           \
        SET(effect);                                                            \
        ct_hook_alloc_exit(&call, r);                                           \
        return r;                                                               \
    }
#define CT_BEFORE_HOOK(symbol, base, abi, ptsz, params, args, operation, effect) \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {              \
        struct ct_hook_call call;                                                \
        struct ct_event *const e = &call.event;                                  \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_##operation))            \
            return real args;                                                    \
        SET(effect);                                                             \
        ct_hook_free_enter(&call);                                               \
        const CUresult r = real args;                                            \
        ct_hook_free_exit(&call, r);                                             \
        return r;                                                                \
    }
#define CT_MEASURED_HOOK(symbol, base, abi, ptsz, params, args, operation, effect) \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {                \
        struct ct_hook_call call;                                                  \
        struct ct_event *const e = &call.event;                                    \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_##operation))              \
            return real args;                                                      \
        ct_hook_measure_enter(&call);                                              \
        const CUresult r = real args;                                              \
        SET(effect);                                                               \
        ct_hook_measure_exit(&call, r);                                            \
        return r;                                                                  \
    }
#define CT_LAZY_HOOK(symbol, base, abi, ptsz, params, args)           \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {   \
        struct ct_hook_call call;                                     \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MODULE_LOAD)) \
            return real args;                                         \
        const int measured = look_up_enter(&call);                    \
        const CUresult r = real args;                                 \
        look_up_exit(&call, r, measured);                             \
        return r;                                                     \
    }
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args)          \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) { \
        const CUresult r = real args;                               \
        if (__builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY, 0))     \
            record_oom(CT_ID_##symbol);                             \
        return r;                                                   \
    }
#include "intercept/hooks.def"

// The host asks the driver itself, so this sample needs no call.
CUresult ct_on_cuMemGetInfo_v2(ct_fn_cuMemGetInfo_v2 *real, size_t *free, size_t *total) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemGetInfo_v2, CT_OP_MEMORY_SAMPLE))
        return real(free, total);
    const CUresult r = real(free, total);
    ct_hook_called(&call);
    // OptiX passes NULL (HAMi-core#234).
    if (r == CUDA_SUCCESS && free && total)
        ct_mem_info_sample_given(call.event.api, *free, *total);
    ct_hook_leave(&call);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
// The activities of the stand-in libcupti: MEMORY2 for cuMemAlloc, cuMemFree and for the static
// data of a module, MEMORY_POOL for pools, CONCURRENT_KERNEL for launches. A record lies in a
// buffer of the client's until the buffer is full or is asked for.
#include "sim_cupti.h"

#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool enabled[CUPTI_ACTIVITY_KIND_COUNT];
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;

static struct {
    uint8_t *bytes;
    size_t size, used;
} buffer;

// Without the lock: a client may call back.
static void give_back(void) {
    pthread_mutex_lock(&lock);
    uint8_t *const bytes = buffer.bytes;
    const size_t size = buffer.size, used = buffer.used;
    buffer.bytes = NULL;
    pthread_mutex_unlock(&lock);
    if (bytes && complete)
        complete(NULL, 0, bytes, size, used);
}

static void put(const void *record, size_t bytes) {
    size_t size = 0, most = 0;
    uint8_t *fresh = NULL;
    if (buffer.bytes && buffer.size - buffer.used < bytes)
        give_back();
    if (!buffer.bytes && request)
        request(&fresh, &size, &most);
    pthread_mutex_lock(&lock);
    if (!buffer.bytes) {
        buffer.bytes = fresh;
        buffer.size = size;
        buffer.used = 0;
    }
    if (buffer.bytes && buffer.size - buffer.used >= bytes) {
        memcpy(buffer.bytes + buffer.used, record, bytes);
        buffer.used += bytes;
    }
    pthread_mutex_unlock(&lock);
}

static CUpti_TimestampCallbackFunc client_clock;

static uint64_t now_ns(void) {
    struct timespec t;
    if (client_clock)
        return client_clock();
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ---- records of calls -----------------------------------------------------------------------

static void put_memory(CUpti_ActivityMemoryOperationType operation, CUpti_ActivityMemoryKind kind,
                       uint64_t address, uint64_t bytes, const char *name) {
    CUpti_ActivityMemory4 m = {
        .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
        .memoryOperationType = operation,
        .memoryKind = kind,
        .address = address,
        .bytes = bytes,
        .timestamp = now_ns(),
        .processId = (uint32_t)getpid(),
        .name = name,
    };
    if (enabled[CUPTI_ACTIVITY_KIND_MEMORY2])
        put(&m, sizeof m);
}

static void put_pool(CUpti_ActivityMemoryPoolOperationType operation, CUmemoryPool pool) {
    CUpti_ActivityMemoryPool2 p = {
        .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
        .memoryPoolOperationType = operation,
        .memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL,
        .processId = (uint32_t)getpid(),
        .address = (uint64_t)(uintptr_t)pool,
        .timestamp = now_ns(),
    };
    if (enabled[CUPTI_ACTIVITY_KIND_MEMORY_POOL])
        put(&p, sizeof p);
}

// SIM_CUPTI_STATIC: bytes of static data in each module that is loaded, of a variable `table`.
static void put_static(uint64_t address) {
    const char *const given = getenv("SIM_CUPTI_STATIC");
    if (given)
        put_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
                   CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, address, strtoull(given, NULL, 0),
                   "table");
}

// A kernel that took no time, on the first device.
static void put_kernel(void) {
    static atomic_uint launches;
    const uint64_t now = now_ns();
    CUpti_ActivityKernel9 k = {
        .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        .start = now,
        .end = now,
        .completed = now,
        .gridX = 1,
        .gridY = 1,
        .gridZ = 1,
        .blockX = 1,
        .blockY = 1,
        .blockZ = 1,
        .correlationId = atomic_fetch_add(&launches, 1) + 1,
        .name = "kernel",
    };
    if (enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL])
        put(&k, sizeof k);
}

void sim_activity_of_call(const struct sim_point *point) {
    if (!request || *point->result != CUDA_SUCCESS)
        return;
    switch (point->cbid) {
    case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2: {
        const cuMemAlloc_v2_params *const p = point->params;
        put_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
                   CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, *p->dptr, p->bytesize, NULL);
        break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2: {
        const cuMemFree_v2_params *const p = point->params;
        put_memory(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
                   p->dptr, 0, NULL);
        break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData: {
        const cuModuleLoadData_params *const p = point->params;
        put_static((uint64_t)(uintptr_t)*p->module);
        break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemPoolCreate: {
        const cuMemPoolCreate_params *const p = point->params;
        put_pool(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED, *p->pool);
        break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuMemPoolDestroy: {
        const cuMemPoolDestroy_params *const p = point->params;
        put_pool(CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED, p->pool);
        break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
        put_kernel();
        break;
    default:
        break;
    }
}

void sim_activity_end(void) {
    memset(enabled, 0, sizeof enabled);
    request = NULL;
    complete = NULL;
    client_clock = NULL;
}

// ---- the interface --------------------------------------------------------------------------

EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                               CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
    if (!funcBufferRequested || !funcBufferCompleted)
        return CUPTI_ERROR_INVALID_PARAMETER;
    give_back();
    request = funcBufferRequested;
    complete = funcBufferCompleted;
    return CUPTI_SUCCESS;
}

static CUptiResult set_enabled(CUpti_ActivityKind kind, bool on) {
    if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT)
        return CUPTI_ERROR_INVALID_KIND;
    enabled[kind] = on;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
    return set_enabled(kind, true);
}

EXPORT CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
    return set_enabled(kind, false);
}

EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) {
    give_back();
    return CUPTI_SUCCESS;
}

static size_t size_of(const CUpti_Activity *record) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        return sizeof(CUpti_ActivityKernel9);
    return record->kind == CUPTI_ACTIVITY_KIND_MEMORY2 ? sizeof(CUpti_ActivityMemory4)
                                                       : sizeof(CUpti_ActivityMemoryPool2);
}

EXPORT CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *bytes, size_t valid,
                                                       CUpti_Activity **record) {
    if (!bytes || !record)
        return CUPTI_ERROR_INVALID_PARAMETER;
    uint8_t *const next = *record ? (uint8_t *)*record + size_of(*record) : bytes;
    if (next + sizeof(CUpti_Activity) > bytes + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

// Of the attributes only the sizes of CUPTI's own buffers in device memory, by default as the
// header says: 3,200,000 bytes each, three of them from the start.
EXPORT CUptiResult CUPTIAPI cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute,
                                                      size_t *size, void *value) {
    if (!size || !value || *size < sizeof(size_t))
        return CUPTI_ERROR_INVALID_PARAMETER;
    size_t number;
    if (attribute == CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE)
        number = 3200000;
    else if (attribute == CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE)
        number = 3;
    else
        return CUPTI_ERROR_INVALID_PARAMETER;
    memcpy(value, &number, sizeof number);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
    client_clock = funcTimestamp;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t streamId,
                                                              size_t *dropped) {
    if (!dropped)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *dropped = 0;
    return CUPTI_SUCCESS;
}

// ---- what kineto asks for and no record depends on ------------------------------------------

EXPORT CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute attr,
                                                      size_t *valueSize, void *value) {
    return valueSize && value ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult CUPTIAPI
cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI
cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *lastId) {
    if (lastId)
        *lastId = 0;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
    return CUPTI_SUCCESS;
}

// (The headers of CUDA 12 do not have it.)
CUptiResult CUPTIAPI cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable);
EXPORT CUptiResult CUPTIAPI cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) {
    return CUPTI_SUCCESS;
}

// SPDX-License-Identifier: Apache-2.0
// The functions behind the hooks: those that the entries go on to, and the driver's that cutrace
// calls for itself.
#ifndef CT_DRIVER_H
#define CT_DRIVER_H

#include <errno.h>

#include "intercept/cuda_api.h"
#include "intercept/hook_table.h"

// ---- the next functions -----------------------------------------------------------------------

// The functions that the hooks' entries go on to. Any thread at any time, also inside dlsym.

// Behind the exported wrapper: the next definition in the process, or NULL if there is none.
void *ct_next_function(enum ct_hook_id id);

// Behind the resolved entry: the pointer that ct_next_set_resolved stored.
void *ct_next_resolved(enum ct_hook_id id);

// Makes the resolved entry go on to a resolver's answer. Returns 1, or 0 if the entry goes on to a
// function of another object already; it keeps that function.
int ct_next_set_resolved(enum ct_hook_id id, void *answer);

// The driver, NULL if it is not loaded.
void *ct_next_driver_handle(void);

// A driver function for this library's own use, around its hooks. NULL where the driver lacks it.
void *ct_next_driver_symbol(const char *symbol);

// ---- functions for cutrace itself -------------------------------------------------------------

// Each may be NULL: check before the call.
//   X(member, symbol, prototype)
#define CT_DRIVER_FUNCTIONS(X)                                                            \
    X(ctx_get_current, cuCtxGetCurrent, (CUcontext *))                                    \
    X(ctx_get_device, cuCtxGetDevice, (CUdevice *))                                       \
    X(ctx_push, cuCtxPushCurrent_v2, (CUcontext))                                         \
    X(ctx_pop, cuCtxPopCurrent_v2, (CUcontext *))                                         \
    X(primary_state, cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *))           \
    X(device_count, cuDeviceGetCount, (int *))                                            \
    X(device_get, cuDeviceGet, (CUdevice *, int))                                         \
    X(device_name, cuDeviceGetName, (char *, int, CUdevice))                              \
    X(device_total, cuDeviceTotalMem_v2, (size_t *, CUdevice))                            \
    X(device_attribute, cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))      \
    X(device_uuid, cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                              \
    X(device_uuid_v1, cuDeviceGetUuid, (CUuuid *, CUdevice))                              \
    X(driver_version, cuDriverGetVersion, (int *))                                        \
    X(device_pool, cuDeviceGetMemPool, (CUmemoryPool *, CUdevice))                        \
    X(default_pool, cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))                \
    X(pool_attribute, cuMemPoolGetAttribute, (CUmemoryPool, CUmemPool_attribute, void *)) \
    X(stream_capturing, cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))         \
    X(stream_context, cuStreamGetCtx, (CUstream, CUcontext *))                            \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))           \
    X(context_limit, cuCtxGetLimit, (size_t *, CUlimit))                                  \
    X(handle_properties, cuMemGetAllocationPropertiesFromHandle,                          \
      (CUmemAllocationProp *, CUmemGenericAllocationHandle))                              \
    X(pointer_attribute, cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr))

struct ct_driver {
#define CT_MEMBER(member, symbol, prototype) CUresult(CUDAAPI *member) prototype;
    CT_DRIVER_FUNCTIONS(CT_MEMBER)
#undef CT_MEMBER
};

// Looked up at the first call after the driver was loaded; constant from then on.
const struct ct_driver *ct_driver(void);

// Asks the driver something that the host did not: errno stays what the host's own call left.
#define CT_ASK(call)                     \
    __extension__({                      \
        int *const errno_at_ = &errno;   \
        const int errno_ = *errno_at_;   \
        const CUresult answer_ = (call); \
        *errno_at_ = errno_;             \
        answer_;                         \
    })

#endif

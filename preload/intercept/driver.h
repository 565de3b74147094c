// SPDX-License-Identifier: Apache-2.0
// Driver functions that cutrace calls for itself. Each may be NULL: check before the call.
#ifndef CT_DRIVER_H
#define CT_DRIVER_H

#include <errno.h>

#include "intercept/cuda_api.h"

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

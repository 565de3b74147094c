// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's devices, primary contexts and errors.
#include "runtime.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define MAX_DEVICES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext retained[MAX_DEVICES];
static _Thread_local int device;
static _Thread_local cudaError_t last_error;

cudaError_t simrt_done(CUresult result) {
    if (result)
        last_error = (cudaError_t)result;
    return (cudaError_t)result;
}

int simrt_device(void) {
    return device;
}

static CUresult primary(int ordinal, CUcontext *ctx) {
    CUresult result = CUDA_SUCCESS;
    if (ordinal < 0 || ordinal >= MAX_DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!retained[ordinal])
        result = CALL(cuDevicePrimaryCtxRetain, 7000, &retained[ordinal], ordinal);
    if (result)
        retained[ordinal] = NULL;
    *ctx = retained[ordinal];
    pthread_mutex_unlock(&lock);
    return result;
}

void simrt_forget_contexts(int ordinal) {
    pthread_mutex_lock(&lock);
    retained[ordinal] = NULL;
    pthread_mutex_unlock(&lock);
}

cudaError_t simrt_context(void) {
    CUcontext ctx = NULL;
    cudaError_t error = simrt_start();
    if (error)
        return error;
    CUresult result = CALL(cuCtxGetCurrent, 4000, &ctx);
    if (!result && !ctx) {
        result = primary(device, &ctx);
        if (!result)
            result = CALL(cuCtxSetCurrent, 4000, ctx);
    }
    return (cudaError_t)result;
}

// ---- errors -----------------------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
    return last_error;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    switch ((int)error) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError:
        return "cudaErrorInitializationError";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorStreamCaptureUnsupported:
        return "cudaErrorStreamCaptureUnsupported";
    default:
        return "cudaErrorUnknown";
    }
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    switch ((int)error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInitializationError:
        return "initialization error";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    default:
        return "unknown error";
    }
}

// ---- versions and entry points ------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion) {
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion) {
    simrt_start();
    return simrt_done(CALL(cuDriverGetVersion, 2020, driverVersion));
}

static cudaError_t entry_point(bool pt, const char *symbol, void **function, unsigned version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    RETURN_IF_NOT_STARTED;
    if (!symbol || !function || flags > cudaEnablePerThreadDefaultStream)
        return simrt_done(CUDA_ERROR_INVALID_VALUE);
    if (pt && flags == cudaEnableDefault)
        flags = cudaEnablePerThreadDefaultStream;
    CUresult result = simrt_resolve(symbol, function, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    if (result == CUDA_ERROR_NOT_FOUND && status)
        result = CUDA_SUCCESS; // the status says it
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **funcPtr,
                                              unsigned long long flags,
                                              enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(false, symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

cudaError_t CUDARTAPI
cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                             enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(true, symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

#if CUDART_VERSION >= 12050
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(false, symbol, funcPtr, cudaVersion, flags, driverStatus);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion_ptsz(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(true, symbol, funcPtr, cudaVersion, flags, driverStatus);
}
#endif

// ---- devices ------------------------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count) {
    RETURN_IF_NOT_STARTED;
    return simrt_done(CALL(cuDeviceGetCount, 2000, count));
}

cudaError_t CUDARTAPI cudaGetDevice(int *out) {
    RETURN_IF_NOT_STARTED;
    *out = device;
    return cudaSuccess;
}

static cudaError_t set_device(int ordinal) {
    int count = 0;
    CUcontext ctx;
    CUresult result = CALL(cuDeviceGetCount, 2000, &count);
    if (!result && (ordinal < 0 || ordinal >= count))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        result = primary(ordinal, &ctx);
    if (!result)
        result = CALL(cuCtxSetCurrent, 4000, ctx);
    if (!result)
        device = ordinal;
    return simrt_done(result);
}

// Since CUDA 12 this makes the primary context.
cudaError_t CUDARTAPI cudaSetDevice(int ordinal) {
    RETURN_IF_NOT_STARTED;
    return set_device(ordinal);
}

cudaError_t CUDARTAPI cudaInitDevice(int ordinal, unsigned int deviceFlags, unsigned int flags) {
    CUcontext ctx;
    (void)deviceFlags, (void)flags;
    RETURN_IF_NOT_STARTED;
    return simrt_done(primary(ordinal, &ctx));
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags) {
    RETURN_IF_NOT_STARTED;
    return simrt_done(CALL(cuDevicePrimaryCtxSetFlags, 11000, device, flags));
}

cudaError_t CUDARTAPI cudaDeviceReset(void) {
    RETURN_IF_NOT_STARTED;
    simrt_forget_contexts(device);
    CUresult result = CALL(cuDevicePrimaryCtxReset, 7000, device);
    CALL(cuCtxSetCurrent, 4000, NULL);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuCtxSynchronize, 2000));
}

cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuCtxSetLimit, 3010, (CUlimit)limit, value));
}

cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuCtxGetLimit, 3010, pValue, (CUlimit)limit));
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int ordinal) {
    RETURN_IF_NOT_STARTED;
    return simrt_done(CALL(cuDeviceGetAttribute, 2000, value, (CUdevice_attribute)attr, ordinal));
}

// The structure of CUDA 12, which has members that CUDA 13 left out, is the same up to deviceOverlap; what is told of a
// device behind that lies at offsets of their own.
struct place {
    CUdevice_attribute attribute;
    size_t offset;
};

#define PLACE(attribute, member) \
    { CU_DEVICE_ATTRIBUTE_##attribute, offsetof(struct cudaDeviceProp, member) }
static const struct place common[] = {
    PLACE(WARP_SIZE, warpSize),
    PLACE(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
    PLACE(MAX_BLOCK_DIM_X, maxThreadsDim[0]),
    PLACE(MAX_BLOCK_DIM_Y, maxThreadsDim[1]),
    PLACE(MAX_BLOCK_DIM_Z, maxThreadsDim[2]),
    PLACE(MAX_GRID_DIM_X, maxGridSize[0]),
    PLACE(MAX_GRID_DIM_Y, maxGridSize[1]),
    PLACE(MAX_GRID_DIM_Z, maxGridSize[2]),
    PLACE(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
    PLACE(COMPUTE_CAPABILITY_MAJOR, major),
    PLACE(COMPUTE_CAPABILITY_MINOR, minor),
};
enum { COMMON = sizeof common / sizeof *common, OWN = 4 };

static CUresult tell(struct cudaDeviceProp *prop, const struct place *places, size_t count,
                     int ordinal) {
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && i < count; i++)
        result = CALL(cuDeviceGetAttribute, 2000, (int *)(void *)((char *)prop + places[i].offset),
                      places[i].attribute, ordinal);
    return result;
}

static cudaError_t properties(struct cudaDeviceProp *prop, const struct place own[OWN],
                              int ordinal) {
    RETURN_IF_NOT_STARTED;
    memset(prop, 0, sizeof *prop);
    CUresult result = CALL(cuDeviceGetName, 2000, prop->name, sizeof prop->name, ordinal);
    if (!result)
        result = CALL(cuDeviceTotalMem, 3020, &prop->totalGlobalMem, ordinal);
    if (!result)
        result = tell(prop, common, COMMON, ordinal);
    if (!result)
        result = tell(prop, own, OWN, ordinal);
    return simrt_done(result);
}

#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int ordinal) {
    static const struct place cuda13[OWN] = {
        PLACE(MULTIPROCESSOR_COUNT, multiProcessorCount),
        PLACE(PCI_BUS_ID, pciBusID),
        PLACE(PCI_DOMAIN_ID, pciDomainID),
        PLACE(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
    };
    return properties(prop, cuda13, ordinal);
}
#endif

// What programs that were built for CUDA 12 call (its header renames the other one).
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int ordinal);
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int ordinal) {
    static const struct place cuda12[OWN] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 388},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 584},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 592},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 624},
    };
    return properties(prop, cuda12, ordinal);
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuCtxGetStreamPriorityRange, 5050, leastPriority, greatestPriority));
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *canAccessPeer, int ordinal, int peerDevice) {
    RETURN_IF_NOT_STARTED;
    return simrt_done(CALL(cuDeviceCanAccessPeer, 4000, canAccessPeer, ordinal, peerDevice));
}

static CUresult peer(int peer_device, bool enable) {
    CUcontext ctx;
    CUresult result = primary(peer_device, &ctx);
    if (result)
        return result;
    return enable ? CALL(cuCtxEnablePeerAccess, 4000, ctx, 0)
                  : CALL(cuCtxDisablePeerAccess, 4000, ctx);
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
    (void)flags;
    RETURN_IF_NO_CONTEXT;
    return simrt_done(peer(peerDevice, true));
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(peer(peerDevice, false));
}

cudaError_t CUDARTAPI cudaDeviceRegisterAsyncNotification(int ordinal,
                                                          cudaAsyncCallback callbackFunc,
                                                          void *userData,
                                                          cudaAsyncCallbackHandle_t *callback) {
    RETURN_IF_NOT_STARTED;
    return simrt_done(CALL(cuDeviceRegisterAsyncNotification, 12040, ordinal,
                           (CUasyncCallback)(void *)callbackFunc, userData,
                           (CUasyncCallbackHandle *)callback));
}

cudaError_t CUDARTAPI cudaGetExportTable(const void **ppExportTable,
                                         const cudaUUID_t *pExportTableId) {
    RETURN_IF_NOT_STARTED;
    return simrt_done(CALL(cuGetExportTable, 3000, ppExportTable, (const CUuuid *)pExportTableId));
}

// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's devices, primary contexts and errors.
#include "runtime.h"

#include <pthread.h>

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

// ---- errors -------------------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
    return last_error;
}

static const struct {
    cudaError_t number;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
};
#define UNKNOWN (sizeof errors / sizeof *errors)

static size_t index_of(cudaError_t error) {
    size_t i = 0;
    while (i < UNKNOWN && errors[i].number != error)
        i++;
    return i;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    const size_t i = index_of(error);
    return i == UNKNOWN ? "cudaErrorUnknown" : errors[i].name;
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    const size_t i = index_of(error);
    return i == UNKNOWN ? "unknown error" : errors[i].text;
}

// ---- versions and entry points ------------------------------------------------------------------

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

// ---- devices ------------------------------------------------------------------------------------

STARTED(cudaGetDeviceCount, (int *count), CALL(cuDeviceGetCount, 2000, count))

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
    RETURN_IF_NOT_STARTED;
    return simrt_done(primary(ordinal, &ctx));
}

STARTED(cudaSetDeviceFlags, (unsigned int flags),
        CALL(cuDevicePrimaryCtxSetFlags, 11000, device, flags))

cudaError_t CUDARTAPI cudaDeviceReset(void) {
    RETURN_IF_NOT_STARTED;
    simrt_forget_contexts(device);
    CUresult result = CALL(cuDevicePrimaryCtxReset, 7000, device);
    CALL(cuCtxSetCurrent, 4000, NULL);
    return simrt_done(result);
}

WITH_CONTEXT(cudaDeviceSynchronize, (void), CALL(cuCtxSynchronize, 2000))
WITH_CONTEXT(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value),
             CALL(cuCtxSetLimit, 3010, (CUlimit)limit, value))
WITH_CONTEXT(cudaDeviceGetLimit, (size_t * pValue, enum cudaLimit limit),
             CALL(cuCtxGetLimit, 3010, pValue, (CUlimit)limit))
STARTED(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attr, int ordinal),
        CALL(cuDeviceGetAttribute, 2000, value, (CUdevice_attribute)attr, ordinal))
STARTED(cudaDeviceGetPCIBusId, (char *pciBusId, int len, int ordinal),
        CALL(cuDeviceGetPCIBusId, 4010, pciBusId, len, ordinal))
STARTED(cudaDeviceGetByPCIBusId, (int *ordinal, const char *pciBusId),
        CALL(cuDeviceGetByPCIBusId, 4010, ordinal, pciBusId))
WITH_CONTEXT(cudaDeviceGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),
             CALL(cuCtxGetStreamPriorityRange, 5050, leastPriority, greatestPriority))
STARTED(cudaDeviceCanAccessPeer, (int *canAccessPeer, int ordinal, int peerDevice),
        CALL(cuDeviceCanAccessPeer, 4000, canAccessPeer, ordinal, peerDevice))

static CUresult peer(int peer_device, bool enable) {
    CUcontext ctx;
    CUresult result = primary(peer_device, &ctx);
    if (result)
        return result;
    return enable ? CALL(cuCtxEnablePeerAccess, 4000, ctx, 0)
                  : CALL(cuCtxDisablePeerAccess, 4000, ctx);
}

WITH_CONTEXT(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags),
             peer(peerDevice, true))
WITH_CONTEXT(cudaDeviceDisablePeerAccess, (int peerDevice), peer(peerDevice, false))
STARTED(cudaDeviceRegisterAsyncNotification,
        (int ordinal, cudaAsyncCallback callbackFunc, void *userData,
         cudaAsyncCallbackHandle_t *callback),
        CALL(cuDeviceRegisterAsyncNotification, 12040, ordinal,
             (CUasyncCallback)(void *)callbackFunc, userData, (CUasyncCallbackHandle *)callback))
STARTED(cudaGetExportTable, (const void **ppExportTable, const cudaUUID_t *pExportTableId),
        CALL(cuGetExportTable, 3000, ppExportTable, (const CUuuid *)pExportTableId))

// cudaProfiler.h and cuda_profiler_api.h are in packages of their own.
typedef CUresult(CUDAAPI *profiler)(void);
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);

WITH_CONTEXT(cudaProfilerStart, (void), SIMRT_CALL_(SIMRT_AT_cuProfilerStart_4000_0, profiler))
WITH_CONTEXT(cudaProfilerStop, (void), SIMRT_CALL_(SIMRT_AT_cuProfilerStop_4000_0, profiler))

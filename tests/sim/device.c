// SPDX-License-Identifier: Apache-2.0
// Devices: how many there are and what they say about themselves. Also cuInit.
#include "sim.h"

#include <stdio.h>

struct sim_device sim_devices[SIM_MAX_DEVICES];

bool sim_device_valid(int device) {
    return device >= 0 && device < sim_param.devices;
}

CUresult CUDAAPI cuInit(unsigned int Flags) {
    SIM_BEGIN(NULL, NOTHING);
    if (!c.result && Flags)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && sim_param.devices == 0)
        c.result = CUDA_ERROR_NO_DEVICE;
    if (!c.result)
        c.result = sim_cu_init();
    return sim_end(&c);
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion) {
    SIM_BEGIN(NULL, NOTHING);
    if (!c.result && !driverVersion)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *driverVersion = sim_param.driver_version;
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
    SIM_BEGIN(NULL, INIT);
    if (!c.result && !count)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *count = sim_param.devices;
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
    SIM_BEGIN(NULL, INIT);
    if (!c.result && !device)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && !sim_device_valid(ordinal))
        c.result = CUDA_ERROR_INVALID_DEVICE;
    if (!c.result)
        *device = ordinal;
    return sim_end(&c);
}

// Begins a question about a device and checks what all of them check.
static void ask(struct sim_call *c, const char *api, const void *out, int device) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    if (!c->result && !out)
        c->result = CUDA_ERROR_INVALID_VALUE;
    if (!c->result && !sim_device_valid(device))
        c->result = CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, name, dev);
    if (!c.result && len > 0)
        snprintf(name, (size_t)len, "Simulated GPU %d", dev);
    return sim_end(&c);
}

static uint64_t total(int device) {
    return sim_param.total_mem ? sim_param.total_mem : sim_param.memory[device];
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, bytes, dev);
    if (!c.result)
        *bytes = total(dev);
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, bytes, dev);
    if (!c.result)
        *bytes = (unsigned)total(dev);
    return sim_end(&c);
}

static CUresult uuid(const char *api, CUuuid *out, CUdevice dev) {
    struct sim_call c;
    ask(&c, api, out, dev);
    if (!c.result)
        sim_uuid(dev, (unsigned char *)out->bytes);
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *out, CUdevice dev) {
    return uuid(__func__, out, dev);
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *out, CUdevice dev) {
    return uuid(__func__, out, dev);
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, pciBusId, dev);
    if (!c.result && len > 0)
        snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", dev + 1);
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    SIM_BEGIN(NULL, INIT);
    unsigned domain, bus;
    if (!c.result && (!dev || !pciBusId || sscanf(pciBusId, "%x:%x", &domain, &bus) != 2))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && !sim_device_valid((int)bus - 1))
        c.result = CUDA_ERROR_INVALID_DEVICE;
    if (!c.result)
        *dev = (int)bus - 1;
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, major && minor ? major : NULL, dev);
    if (!c.result) {
        *major = 9;
        *minor = 0;
    }
    return sim_end(&c);
}

static int attribute(CUdevice_attribute attrib, CUdevice dev) {
    switch ((int)attrib) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return 0;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return dev + 1;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, pi, dev);
    if (!c.result && ((int)attrib < 1 || (int)attrib > 1000))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *pi = attribute(attrib, dev);
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    struct sim_call c;
    ask(&c, __func__, canAccessPeer, dev);
    if (!c.result && !sim_device_valid(peerDev))
        c.result = CUDA_ERROR_INVALID_DEVICE;
    if (!c.result)
        *canAccessPeer = dev != peerDev;
    return sim_end(&c);
}

// Over-budget notifications are accepted and never sent.
CUresult CUDAAPI cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                   void *userData,
                                                   CUasyncCallbackHandle *callback) {
    struct sim_call c;
    (void)userData;
    ask(&c, __func__, callbackFunc ? (void *)callback : NULL, device);
    if (!c.result)
        *callback = sim_object_new(sizeof(struct sim_object), SIM_CALLBACK, NULL, device);
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceUnregisterAsyncNotification(CUdevice device,
                                                     CUasyncCallbackHandle callback) {
    struct sim_call c;
    void *object = NULL;
    ask(&c, __func__, callback, device);
    if (!c.result && !(object = sim_object_find(callback, SIM_CALLBACK)))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        sim_object_delete(object);
    return sim_end(&c);
}

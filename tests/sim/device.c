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
    SIM_REFUSE_IF(&c, Flags, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, sim_param.devices == 0, CUDA_ERROR_NO_DEVICE);
    if (!c.result)
        c.result = sim_cu_init();
    const CUresult result = sim_end(&c);
    if (!result)
        sim_inject();
    return result;
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion) {
    SIM_BEGIN(NULL, NOTHING);
    SIM_REFUSE_IF(&c, !driverVersion, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *driverVersion = sim_param.driver_version;
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !count, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *count = sim_param.devices;
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !device, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_device_valid(ordinal), CUDA_ERROR_INVALID_DEVICE);
    if (!c.result)
        *device = ordinal;
    return sim_end(&c);
}

// Begins a question about a device and checks what all of them check.
static void ask(struct sim_call *c, const char *api, const void *out, int device) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    SIM_REFUSE_IF(c, !out, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(c, !sim_device_valid(device), CUDA_ERROR_INVALID_DEVICE);
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, name, dev);
    if (!c.result && len > 0)
        snprintf(name, (size_t)len, "Simulated GPU %d%s", dev,
                 sim_param.mig_card ? " MIG 1g.simulated" : "");
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

// Of a MIG instance, the first version has the UUID of its card.
static CUresult uuid(const char *api, CUuuid *out, CUdevice dev, int of_card) {
    struct sim_call c;
    ask(&c, api, out, dev);
    if (!c.result && of_card && sim_param.mig_card)
        sim_card_uuid((unsigned char *)out->bytes);
    else if (!c.result)
        sim_uuid(dev, (unsigned char *)out->bytes);
    return sim_end(&c);
}

SIM_FORWARD(cuDeviceGetUuid, (CUuuid * out, CUdevice dev), uuid, out, dev, 1)
SIM_FORWARD(cuDeviceGetUuid_v2, (CUuuid * out, CUdevice dev), uuid, out, dev, 0)

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
    SIM_REFUSE_IF(&c, !dev || !pciBusId || sscanf(pciBusId, "%x:%x", &domain, &bus) != 2,
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_device_valid((int)bus - 1), CUDA_ERROR_INVALID_DEVICE);
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

// What is 0 is not named. Sizes are those of an H100 SXM.
#define IS(name) [CU_DEVICE_ATTRIBUTE_##name]
static const int attributes[] = {
    IS(COMPUTE_CAPABILITY_MAJOR) = 9,
    IS(MAX_THREADS_PER_BLOCK) = 1024,
    IS(MAX_BLOCK_DIM_X) = 1024,
    IS(MAX_BLOCK_DIM_Y) = 1024,
    IS(MAX_BLOCK_DIM_Z) = 64,
    IS(MAX_GRID_DIM_X) = 0x7fffffff,
    IS(MAX_GRID_DIM_Y) = 65535,
    IS(MAX_GRID_DIM_Z) = 65535,
    IS(WARP_SIZE) = 32,
    IS(MULTIPROCESSOR_COUNT) = 132,
    IS(MAX_THREADS_PER_MULTIPROCESSOR) = 2048,
    IS(MAX_BLOCKS_PER_MULTIPROCESSOR) = 32,
    IS(MAX_REGISTERS_PER_BLOCK) = 65536,
    IS(MAX_REGISTERS_PER_MULTIPROCESSOR) = 65536,
    IS(MAX_SHARED_MEMORY_PER_BLOCK) = 48 << 10,
    IS(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) = 227 << 10,
    IS(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) = 228 << 10,
    IS(RESERVED_SHARED_MEMORY_PER_BLOCK) = 1 << 10,
    IS(TOTAL_CONSTANT_MEMORY) = 64 << 10,
    IS(L2_CACHE_SIZE) = 50 << 20,
    IS(MAX_PERSISTING_L2_CACHE_SIZE) = 32768000,
    IS(MAX_ACCESS_POLICY_WINDOW_SIZE) = 128 << 20,
    IS(CLOCK_RATE) = 1980000,
    IS(MEMORY_CLOCK_RATE) = 2619000,
    IS(GLOBAL_MEMORY_BUS_WIDTH) = 5120,
    IS(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) = 2,
    IS(ASYNC_ENGINE_COUNT) = 3,
    IS(GPU_OVERLAP) = 1,
    IS(MAX_PITCH) = 0x7fffffff,
    IS(TEXTURE_ALIGNMENT) = 512,
    IS(TEXTURE_PITCH_ALIGNMENT) = 32,
    IS(SURFACE_ALIGNMENT) = 512,
    IS(MAXIMUM_TEXTURE1D_WIDTH) = 131072,
    IS(MAXIMUM_TEXTURE1D_LINEAR_WIDTH) = 1 << 28,
    IS(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH) = 32768,
    IS(MAXIMUM_TEXTURE1D_LAYERED_WIDTH) = 32768,
    IS(MAXIMUM_TEXTURE1D_LAYERED_LAYERS) = 2048,
    IS(MAXIMUM_TEXTURE2D_WIDTH) = 131072,
    IS(MAXIMUM_TEXTURE2D_HEIGHT) = 65536,
    IS(MAXIMUM_TEXTURE2D_LAYERED_WIDTH) = 32768,
    IS(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT) = 32768,
    IS(MAXIMUM_TEXTURE2D_LAYERED_LAYERS) = 2048,
    IS(MAXIMUM_TEXTURE3D_WIDTH) = 16384,
    IS(MAXIMUM_TEXTURE3D_HEIGHT) = 16384,
    IS(MAXIMUM_TEXTURE3D_DEPTH) = 16384,
    IS(UNIFIED_ADDRESSING) = 1,
    IS(CAN_MAP_HOST_MEMORY) = 1,
    IS(HOST_REGISTER_SUPPORTED) = 1,
    IS(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) = 1,
    IS(MANAGED_MEMORY) = 1,
    IS(CONCURRENT_MANAGED_ACCESS) = 1,
    IS(CONCURRENT_KERNELS) = 1,
    IS(COMPUTE_PREEMPTION_SUPPORTED) = 1,
    IS(COOPERATIVE_LAUNCH) = 1,
    IS(CLUSTER_LAUNCH) = 1,
    IS(TENSOR_MAP_ACCESS_SUPPORTED) = 1,
    IS(STREAM_PRIORITIES_SUPPORTED) = 1,
    IS(GLOBAL_L1_CACHE_SUPPORTED) = 1,
    IS(LOCAL_L1_CACHE_SUPPORTED) = 1,
    IS(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) = 1,
    IS(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) = 1,
    IS(MEMORY_POOLS_SUPPORTED) = 1,
    IS(MEMPOOL_SUPPORTED_HANDLE_TYPES) = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    IS(IPC_EVENT_SUPPORTED) = 1,
    IS(SPARSE_CUDA_ARRAY_SUPPORTED) = 1,
    IS(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED) = 1,
    IS(MEM_SYNC_DOMAIN_COUNT) = 4,
};

int sim_device_attribute(CUdevice_attribute attribute, int device) {
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        return device + 1;
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
        return sim_param.nvlink;
    if (attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED ||
        attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ||
        attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
        return sim_param.integrated;
    return (size_t)attribute < sizeof attributes / sizeof *attributes ? attributes[attribute] : 0;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
    struct sim_call c;
    ask(&c, __func__, pi, dev);
    SIM_REFUSE_IF(&c, (int)attrib < 1 || (int)attrib > 1000, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *pi = sim_device_attribute(attrib, dev);
    return sim_end(&c);
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    struct sim_call c;
    ask(&c, __func__, canAccessPeer, dev);
    SIM_REFUSE_IF(&c, !sim_device_valid(peerDev), CUDA_ERROR_INVALID_DEVICE);
    if (!c.result)
        *canAccessPeer = dev != peerDev;
    return sim_end(&c);
}

// Over-budget notifications are accepted and never sent.
CUresult CUDAAPI cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                   void *userData,
                                                   CUasyncCallbackHandle *callback) {
    struct sim_call c;
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
    SIM_REFUSE_IF(&c, !(object = sim_object_find(callback, SIM_CALLBACK)),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        sim_object_delete(object);
    return sim_end(&c);
}

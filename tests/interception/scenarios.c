// SPDX-License-Identifier: Apache-2.0
// What the programs do: every function of the hook table at least once with success and once
// without, and the sequences whose meaning is easily got wrong.
#define _GNU_SOURCE
#include "cu.h"

#include <pthread.h>
#include <unistd.h>

#define UNKNOWN_PTR ((CUdeviceptr)0xdead0000)
#define BAD(type) ((type)(uintptr_t)0xbad000)

// ---- device and managed memory -----------------------------------------------------------------

static void s_device(void) {
    size_t pitch = 0, free_bytes, total;
    CUdeviceptr p[6], q = 0;
    start(0);
    const size_t sizes[6] = {1, 100, 512, 2 * MIB, 3 * MIB + 1, 70 * MIB};
    for (int i = 0; i < 6; i++)
        p[i] = take(sizes[i]);
    T(cuMemAllocPitch_v2, &q, &pitch, 1000, 33, 4);
    T(cuMemFree_v2, q);
    T(cuMemAllocPitch_v2, &q, &pitch, 1000, 33, 5);
    T(cuMemAllocPitch_v2, &q, &pitch, MIB, 5000, 16);
    T(cuMemAllocManaged, &q, 5 * MIB, CU_MEM_ATTACH_GLOBAL);
    T(cuMemFree_v2, q);
    T(cuMemAllocManaged, &q, 5 * MIB, 77);
    T(cuMemAllocManaged, &q, MIB, CU_MEM_ATTACH_HOST); // stays
    T(cuMemGetInfo_v2, &free_bytes, &total);
    printf("free %zu of %zu\n", free_bytes, total);
    T(cuMemGetInfo_v2, NULL, NULL);
    T(cuMemFree_v2, p[3]);
    T(cuMemFree_v2, p[0]);
    T(cuMemFree_v2, p[5]);
    T(cuMemFree_v2, p[1]); // p[2] and p[4] stay
}

// Invalid calls, none of which may change anything.
static void s_invalid(void) {
    CUdeviceptr p, q = 0x1234;
    start(0);
    p = take(MIB);
    T(cuMemFree_v2, 0);           // fine by the driver
    T(cuMemFree_v2, UNKNOWN_PTR); // never seen
    T(cuMemFree_v2, p + 4096);    // inside
    T(cuMemFree_v2, p);
    T(cuMemFree_v2, p); // twice
    T(cuMemAlloc_v2, &q, 0);
    T(cuMemAlloc_v2, NULL, 4096);
    T(cuMemAlloc_v2, &q, (size_t)1 << 50);
    T(cuMemAlloc_v2, &q, SIZE_MAX);
    printf("q %llx\n", (unsigned long long)q);
    p = take(4096);
}

// Without a context, without cuInit.
static void s_no_context(void) {
    CUdeviceptr p = 0;
    T(cuMemAlloc_v2, &p, 4096);
    T(cuMemFree_v2, UNKNOWN_PTR);
    T(cuInit, 0);
    T(cuMemAlloc_v2, &p, 4096);
    T(cuMemFree_v2, UNKNOWN_PTR);
    T(cuDevicePrimaryCtxRelease_v2, 0);
    T(cuDevicePrimaryCtxReset_v2, 0);
    start(0);
    p = take(4096);
}

// Until the device is full; then a smaller one fits, which makes the refusal one that was recovered
// from.
static void s_fill(void) {
    CUdeviceptr p;
    int n = 0;
    start(0);
    while (CU(cuMemAlloc_v2)(&p, 64 * MIB) == CUDA_SUCCESS)
        n++;
    printf("filled with %d\n", n);
    T(cuMemAlloc_v2, &p, MIB);
    T(cuMemFree_v2, p);
    T(cuMemAlloc_v2, &p, 512 * MIB);
}

// Under a limiter: two fit, the third does not.
static void s_limited(void) {
    CUdeviceptr p = 0;
    size_t free_bytes, total;
    start(0);
    take(40 * MIB);
    take(50 * MIB);
    T(cuMemAlloc_v2, &p, 30 * MIB);
    T(cuMemGetInfo_v2, &free_bytes, &total);
    printf("free %zu of %zu\n", free_bytes, total);
}

// For SIM_FAIL: what fails in a way that stays.
static void s_sticky(void) {
    CUdeviceptr p = 0, q = 0;
    start(0);
    p = take(MIB);
    for (int i = 0; i < 3; i++)
        T(cuMemAlloc_v2, &q, 4096);
    T(cuMemFree_v2, p);
    T(cuCtxSynchronize);
}

static void s_two_devices(void) {
    CUcontext a = start(0), b = NULL;
    CUdeviceptr p, q;
    p = take(10 * MIB);
    T(cuDevicePrimaryCtxRetain, &b, 1);
    T(cuCtxSetCurrent, b);
    q = take(20 * MIB);
    T(cuMemFree_v2, p); // from the other device's context: addresses are global
    T(cuCtxSetCurrent, a);
    take(30 * MIB);
    T(cuMemFree_v2, q);
    T(cuCtxSetCurrent, b);
    take(40 * MIB);
}

// ---- stream-ordered memory ---------------------------------------------------------------------

static CUmemPoolProps pool_props(int device) {
    return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

static void s_async(void) {
    CUmemPoolProps props = pool_props(0);
    CUmemoryPool pool = NULL;
    CUdeviceptr p[8], q = 0;
    CUstream s = NULL;
    CUevent ev = NULL;
    start(0);
    T(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    T(cuEventCreate, &ev, 0);
    T(cuMemPoolCreate, &pool, &props);
    T(cuMemAllocAsync, &p[0], 3 * MIB, s);
    T(cuMemAllocAsync, &p[1], 5000, NULL);
    T(cuMemAllocAsync_ptsz, &p[2], 7 * MIB, NULL);
    T(cuMemAllocAsync_ptsz, &p[3], 100, s);
    T(cuMemAllocFromPoolAsync, &p[4], 9 * MIB, pool, s);
    T(cuMemAllocFromPoolAsync_ptsz, &p[5], 11 * MIB, pool, NULL);
    T(cuMemFreeAsync, p[0], s);
    T(cuMemFreeAsync_ptsz, p[2], NULL);
    T(cuMemFree_v2, p[3]); // what is stream-ordered may be freed so as well
    T(cuMemFreeAsync, p[4], s);
    T(cuEventRecord, ev, s);
    T(cuEventSynchronize, ev);
    T(cuStreamSynchronize, s);
    T(cuStreamSynchronize_ptsz, NULL);
    T(cuCtxSynchronize);
#if CUDA_VERSION >= 13000
    T(cuCtxSynchronize_v2, NULL);
#endif
    T(cuMemPoolTrimTo, pool, 0);
    // And what is refused.
    T(cuMemAllocAsync, &q, (size_t)1 << 50, s);
    T(cuMemAllocAsync_ptsz, &q, (size_t)1 << 50, NULL);
    T(cuMemAllocFromPoolAsync, &q, (size_t)1 << 50, pool, s);
    T(cuMemAllocFromPoolAsync_ptsz, &q, (size_t)1 << 50, pool, s);
    T(cuMemFreeAsync, UNKNOWN_PTR, s);
    T(cuMemFreeAsync_ptsz, UNKNOWN_PTR, s);
    T(cuMemFreeAsync, 0, s);
    T(cuMemPoolCreate, &pool, NULL);
    T(cuMemPoolTrimTo, BAD(CUmemoryPool), 0);
    T(cuMemPoolDestroy, BAD(CUmemoryPool));
    T(cuMemFreeAsync, p[5], NULL);
    T(cuMemPoolDestroy, pool);
    // p[1] stays
}

static void s_pools(void) {
    CUmemPoolProps props = pool_props(0);
    CUmemoryPool pool = NULL, other = NULL;
    CUmemPoolPtrExportData data;
    CUmemAccessDesc access = {.location = props.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p, q = 0;
    cuuint64_t keep = 64 * MIB;
    int fd = -1;
    start(0);
    T(cuMemPoolCreate, &pool, &props);
    T(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    T(cuMemPoolSetAttribute, BAD(CUmemoryPool), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    T(cuMemPoolSetAccess, pool, &access, 1);
    T(cuMemPoolSetAccess, BAD(CUmemoryPool), &access, 1);
    T(cuMemAllocFromPoolAsync, &p, 2 * MIB, pool, NULL);
    T(cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    T(cuMemPoolExportToShareableHandle, &fd, BAD(CUmemoryPool),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    T(cuMemPoolExportPointer, &data, p);
    T(cuMemPoolExportPointer, &data, UNKNOWN_PTR);
    T(cuMemPoolImportFromShareableHandle, &other, (void *)(intptr_t)fd,
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    T(cuMemPoolImportPointer, &q, other, &data);
    T(cuMemPoolImportPointer, &q, BAD(CUmemoryPool), &data);
    T(cuMemPoolImportFromShareableHandle, &other, (void *)(intptr_t)-1,
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    T(cuMemFreeAsync, p, NULL);
    T(cuStreamSynchronize, NULL);
    T(cuMemPoolTrimTo, pool, 0);
}

// Memory that a pool has taken goes back to the device at a synchronise, with no call that frees.
static void shrink(CUmemoryPool pool) {
    CUdeviceptr p;
    size_t before, after, total;
    if (pool)
        T(cuMemAllocFromPoolAsync, &p, 100 * MIB, pool, NULL);
    else
        T(cuMemAllocAsync, &p, 100 * MIB, NULL);
    T(cuMemFreeAsync, p, NULL);
    CU(cuMemGetInfo_v2)(&before, &total);
    T(cuStreamSynchronize, NULL);
    CU(cuMemGetInfo_v2)(&after, &total);
    printf("given back %zu\n", after - before);
}

static void s_pool_shrinks(void) {
    start(0);
    shrink(NULL);
}

// The same of a pool that the program did not create.
static void s_default_pool_shrinks(void) {
    CUmemoryPool pool = NULL;
    start(0);
    CU(cuDeviceGetDefaultMemPool)(&pool, 0);
    shrink(pool);
}

// ---- virtual memory management -----------------------------------------------------------------

static CUmemAllocationProp vmm_prop(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

static void s_vmm(void) {
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h = 0, h2 = 0, imported = 0;
    CUdeviceptr va = 0, other = 0;
    int fd = -1;
    start(0);
    T(cuMemAddressReserve, &va, 64 * MIB, 0, 0, 0);
    T(cuMemAddressReserve, &other, 12345, 0, 0, 0);
    T(cuMemCreate, &h, 20 * MIB, &prop, 0);
    T(cuMemCreate, &h2, 2 * MIB, &prop, 0);
    T(cuMemCreate, &other, 2 * MIB + 1, &prop, 0);
    T(cuMemCreate, &other, (size_t)1 << 50, &prop, 0);
    T(cuMemMap, va, 20 * MIB, 0, h, 0);
    T(cuMemMap, va + 20 * MIB, 2 * MIB, 0, h2, 0);
    T(cuMemMap, va, 20 * MIB, 0, h, 0);                 // is mapped
    T(cuMemMap, va + 22 * MIB, 2 * MIB, 6 * MIB, h, 0); // a part of it, once more
    T(cuMemUnmap, va + 22 * MIB, 2 * MIB);
    T(cuMemSetAccess, va, 22 * MIB, &access, 1);
    T(cuMemSetAccess, UNKNOWN_PTR, 2 * MIB, &access, 1);
    T(cuMemRetainAllocationHandle, &imported, (void *)(uintptr_t)va);
    T(cuMemRelease, imported);
    T(cuMemRetainAllocationHandle, &imported, (void *)(uintptr_t)UNKNOWN_PTR);
    T(cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    T(cuMemExportToShareableHandle, &fd, 0xbad000, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (fd >= 0) {
        T(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)fd,
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        T(cuMemRelease, imported);
        close(fd);
    }
    T(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)-1,
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    fd = -1;
    T(cuMemGetHandleForAddressRange, &fd, va, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (fd >= 0)
        close(fd);
    T(cuMemGetHandleForAddressRange, &fd, UNKNOWN_PTR, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
      0);
    T(cuMemRelease, h); // the mapping keeps the memory
    T(cuMemUnmap, va, 20 * MIB);
    T(cuMemUnmap, va, 20 * MIB);
    T(cuMemRelease, 0xbad000);
    T(cuMemAddressFree, va, 64 * MIB); // something is mapped
    T(cuMemUnmap, va + 20 * MIB, 2 * MIB);
    T(cuMemAddressFree, va, 64 * MIB);
    // h2 is without a mapping and stays
}

// Two owners of one object, and the last mapping as the moment when memory is given back.
static void s_retained(void) {
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle h = 0, again = 0;
    CUdeviceptr va = 0;
    size_t free_bytes, total;
    start(0);
    T(cuMemAddressReserve, &va, 8 * MIB, 0, 0, 0);
    T(cuMemCreate, &h, 4 * MIB, &prop, 0);
    T(cuMemMap, va, 4 * MIB, 0, h, 0);
    T(cuMemMap, va + 4 * MIB, 4 * MIB, 0, h, 0); // the same memory a second time
    T(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)va);
    T(cuMemRelease, h);
    T(cuMemUnmap, va, 4 * MIB);
    T(cuMemRelease, again);
    CU(cuMemGetInfo_v2)(&free_bytes, &total);
    printf("free %zu\n", free_bytes);
    T(cuMemUnmap, va + 4 * MIB, 4 * MIB); // now
    CU(cuMemGetInfo_v2)(&free_bytes, &total);
    printf("free %zu\n", free_bytes);
    T(cuMemCreate, &h, 4 * MIB, &prop, 0);
    T(cuMemMap, va, 4 * MIB, 0, h, 0);
    T(cuMemRelease, h); // stays, by its mapping
}

// PyTorch's expandable segments: a large reservation that grows and shrinks by small and large
// pieces.
static void s_expandable(void) {
    enum { SEGMENTS = 40 };
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle[2][SEGMENTS] = {{0}};
    const size_t size[2] = {20 * MIB, 2 * MIB};
    CUdeviceptr va[2] = {0};
    start(0);
    for (int k = 0; k < 2; k++)
        T(cuMemAddressReserve, &va[k], (size_t)1152 * MIB, 0, 0, 0);
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < 2; k++) {
            const int grow = 10 * (round + 1);
            for (int i = 0; i < grow; i++) {
                const CUdeviceptr at = va[k] + (size_t)i * size[k];
                if (handle[k][i])
                    continue;
                if (T(cuMemCreate, &handle[k][i], size[k], &prop, 0)) {
                    handle[k][i] = 0;
                    break;
                }
                T(cuMemMap, at, size[k], 0, handle[k][i], 0);
                T(cuMemSetAccess, at, size[k], &access, 1);
            }
            for (int i = round; i < grow; i += 3) {
                if (!handle[k][i])
                    continue;
                T(cuMemUnmap, va[k] + (size_t)i * size[k], size[k]);
                T(cuMemRelease, handle[k][i]);
                handle[k][i] = 0;
            }
        }
}

#if CUDA_VERSION >= 12010
static void s_multicast(void) {
    CUmulticastObjectProp mp = {0};
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle mc = 0, h = 0, none = 0;
    CUdeviceptr va = 0;
    mp.numDevices = 1;
    mp.size = 4 * MIB;
    mp.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    start(0);
    T(cuMulticastCreate, &mc, &mp);
    T(cuMulticastAddDevice, mc, 0);
    T(cuMulticastAddDevice, mc, 99);
    T(cuMemCreate, &h, 4 * MIB, &prop, 0);
    T(cuMulticastBindMem, mc, 0, h, 0, 2 * MIB, 0);
    T(cuMulticastBindMem, mc, 0, 0xbad000, 0, 2 * MIB, 0);
    T(cuMemAddressReserve, &va, 4 * MIB, 0, 0, 0);
    T(cuMemMap, va, 4 * MIB, 0, h, 0);
    T(cuMulticastBindAddr, mc, 2 * MIB, va, 2 * MIB, 0);
    T(cuMulticastBindAddr, mc, 2 * MIB, UNKNOWN_PTR, 2 * MIB, 0);
    T(cuMulticastUnbind, mc, 0, 0, 2 * MIB);
    T(cuMulticastUnbind, 0xbad000, 0, 0, 2 * MIB);
#if CUDA_VERSION >= 13010
    T(cuMulticastBindMem_v2, mc, 0, 0, h, 0, 2 * MIB, 0);
    T(cuMulticastBindMem_v2, mc, 0, 0, 0xbad000, 0, 2 * MIB, 0);
    T(cuMulticastUnbind, mc, 0, 2 * MIB, 2 * MIB);
    T(cuMulticastBindAddr_v2, mc, 0, 2 * MIB, va, 2 * MIB, 0);
    T(cuMulticastBindAddr_v2, mc, 0, 2 * MIB, UNKNOWN_PTR, 2 * MIB, 0);
#endif
    mp.size = 0;
    T(cuMulticastCreate, &none, &mp);
    T(cuMemRelease, mc);
}
#else
static void s_multicast(void) {
}
#endif

// ---- arrays ------------------------------------------------------------------------------------

static void s_arrays(void) {
    CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = 100, .Height = 50, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 64, .Height = 32, .Depth = 16, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    CUarray a = NULL, b = NULL, c = NULL, none = NULL;
    CUmipmappedArray m = NULL, no_mip = NULL;
    start(0);
    T(cuArrayCreate_v2, &a, &flat);
    flat.Height = 0; // one dimension
    T(cuArrayCreate_v2, &b, &flat);
    flat.NumChannels = 3;
    T(cuArrayCreate_v2, &none, &flat);
    T(cuArray3DCreate_v2, &c, &deep);
    T(cuMipmappedArrayCreate, &m, &deep, 3);
    T(cuArrayDestroy, a);
    T(cuArrayDestroy, a);
    T(cuMipmappedArrayDestroy, m);
    T(cuMipmappedArrayDestroy, m);
    T(cuMipmappedArrayCreate, &m, &deep, 99); // more levels than it has
    deep.Width = (size_t)1 << 40;
    T(cuArray3DCreate_v2, &none, &deep);
    T(cuMipmappedArrayCreate, &no_mip, &deep, 1);
    // b and c stay
}

static void s_sparse(void) {
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 1024,
                                 .Height = 1024,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                 .NumChannels = 4,
                                 .Flags = CUDA_ARRAY3D_SPARSE};
    CUmemAllocationProp prop = vmm_prop(0);
    CUmemGenericAllocationHandle h = 0;
    CUarrayMapInfo map = {0};
    CUarray a = NULL, deferred = NULL;
    start(0);
    T(cuArray3DCreate_v2, &a, &d);
    d.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    T(cuArray3DCreate_v2, &deferred, &d);
    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    T(cuMemCreate, &h, 4 * MIB, &prop, 0);
    map.resourceType = CU_RESOURCE_TYPE_ARRAY;
    map.resource.array = a;
    map.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    map.subresource.miptail.size = 2 * MIB;
    map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    map.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    map.memHandle.memHandle = h;
    map.deviceBitMask = 1;
    T(cuMemMapArrayAsync, &map, 1, NULL);
    T(cuMemMapArrayAsync_ptsz, &map, 1, NULL);
    map.resource.array = BAD(CUarray);
    T(cuMemMapArrayAsync, &map, 1, NULL);
    T(cuMemMapArrayAsync_ptsz, &map, 1, NULL);
    T(cuArrayDestroy, deferred);
}

// ---- host memory -------------------------------------------------------------------------------

static void s_host(void) {
    void *p = NULL, *q = NULL, *none = NULL;
    static char buffer[8 << 20] __attribute__((aligned(4096)));
    start(0);
    T(cuMemAllocHost_v2, &p, 3 * MIB);
    T(cuMemHostAlloc, &q, 4 * MIB, CU_MEMHOSTALLOC_PORTABLE);
    T(cuMemAllocHost_v2, &none, 0);
    T(cuMemHostAlloc, &none, MIB, 0xff00);
    T(cuMemFreeHost, p);
    T(cuMemFreeHost, p);
    T(cuMemHostRegister_v2, buffer, MIB, 0);
    T(cuMemHostRegister_v2, buffer, MIB, 0);
    T(cuMemHostRegister, buffer + 2 * MIB, MIB, 0);
    T(cuMemHostRegister, NULL, 0, 0);
    T(cuMemHostUnregister, buffer);
    T(cuMemHostUnregister, buffer);
    // q stays, and the second registration
}

// ---- memory of others --------------------------------------------------------------------------

static void s_share(void) {
    CUipcMemHandle ipc = {0};
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {0};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {0};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC mipmap = {0};
    CUexternalMemory ext = NULL, none = NULL;
    CUmipmappedArray m = NULL;
    CUdeviceptr p, q = 0;
    start(0);
    p = take(2 * MIB);
    T(cuIpcOpenMemHandle_v2, &q, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    T(cuIpcOpenMemHandle, &q, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    T(cuIpcGetMemHandle, &ipc, p);
    T(cuIpcGetMemHandle, &ipc, UNKNOWN_PTR);
    T(cuIpcCloseMemHandle, UNKNOWN_PTR);
    desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    desc.handle.fd = dup(1);
    desc.size = 8 * MIB;
    T(cuImportExternalMemory, &ext, &desc);
    buffer.offset = MIB;
    buffer.size = 2 * MIB;
    T(cuExternalMemoryGetMappedBuffer, &q, ext, &buffer);
    T(cuExternalMemoryGetMappedBuffer, &q, BAD(CUexternalMemory), &buffer);
    mipmap.arrayDesc.Width = 64;
    mipmap.arrayDesc.Height = 64;
    mipmap.arrayDesc.Format = CU_AD_FORMAT_FLOAT;
    mipmap.arrayDesc.NumChannels = 1;
    mipmap.numLevels = 1;
    T(cuExternalMemoryGetMappedMipmappedArray, &m, ext, &mipmap);
    T(cuExternalMemoryGetMappedMipmappedArray, &m, BAD(CUexternalMemory), &mipmap);
    T(cuDestroyExternalMemory, ext);
    T(cuDestroyExternalMemory, ext);
    T(cuImportExternalMemory, &none, NULL);
}

static void s_graphics(void) {
    CUgraphicsResource r = NULL, bad = BAD(CUgraphicsResource);
    start(0);
    T(cuGraphicsGLRegisterBuffer, &r, 1, 0);
    T(cuGraphicsMapResources, 1, &r, NULL);
    T(cuGraphicsMapResources, 1, &bad, NULL);
    T(cuGraphicsUnmapResources, 1, &r, NULL);
    T(cuGraphicsUnmapResources, 1, &bad, NULL);
    T(cuGraphicsMapResources_ptsz, 1, &r, NULL);
    T(cuGraphicsMapResources_ptsz, 1, &bad, NULL);
    T(cuGraphicsUnmapResources_ptsz, 1, &r, NULL);
    T(cuGraphicsUnmapResources_ptsz, 1, &bad, NULL);
}

// ---- graphs and capture ------------------------------------------------------------------------

static CUDA_MEM_ALLOC_NODE_PARAMS node_params(size_t bytes) {
    CUDA_MEM_ALLOC_NODE_PARAMS p = {0};
    p.poolProps = pool_props(0);
    p.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    p.bytesize = bytes;
    return p;
}

static void s_graph(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS p = node_params(6 * MIB);
    CUgraph g = NULL, bad = BAD(CUgraph);
    CUgraphNode a = NULL, f = NULL;
    CUgraphExec x = NULL;
    start(0);
    T(cuGraphCreate, &g, 0);
    T(cuGraphAddMemAllocNode, &a, g, NULL, 0, &p);
    T(cuGraphAddMemAllocNode, &f, bad, NULL, 0, &p);
    T(cuGraphAddMemFreeNode, &f, g, &a, 1, p.dptr);
    T(cuGraphAddMemFreeNode, &f, g, NULL, 0, UNKNOWN_PTR);
#if CUDA_VERSION >= 12020
    CUgraphNodeParams any = {0};
    any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    any.alloc.poolProps = p.poolProps;
    any.alloc.bytesize = 3 * MIB;
    T(cuGraphAddNode, &a, g, &f, 1, &any);
    T(cuGraphAddNode, &a, bad, NULL, 0, &any);
    const CUdeviceptr allocated = any.alloc.dptr;
    memset(&any, 0, sizeof any);
    any.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    any.free.dptr = allocated;
#if CUDA_VERSION >= 12030
    T(cuGraphAddNode_v2, &f, g, &a, NULL, 1, &any);
    T(cuGraphAddNode_v2, &f, bad, NULL, NULL, 0, &any);
#else
    T(cuGraphAddNode, &f, g, &a, 1, &any);
#endif
    memset(&any, 0, sizeof any);
    any.type = CU_GRAPH_NODE_TYPE_EMPTY;
    T(cuGraphAddNode, &a, g, NULL, 0, &any);
#endif
    T(cuGraphInstantiateWithFlags, &x, g, 0);
    T(cuGraphUpload, x, NULL);
    T(cuGraphUpload_ptsz, x, NULL);
    T(cuGraphLaunch, x, NULL);
    T(cuGraphLaunch_ptsz, x, NULL);
    T(cuGraphLaunch, BAD(CUgraphExec), NULL);
    T(cuStreamSynchronize, NULL);
    T(cuGraphExecDestroy, x);
    T(cuGraphExecDestroy, BAD(CUgraphExec));
    T(cuDeviceGraphMemTrim, 0);
    T(cuDeviceGraphMemTrim, 99);
    T(cuGraphDestroy, g);
}

static void s_instantiate(void) {
    CUDA_GRAPH_INSTANTIATE_PARAMS with = {0};
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    start(0);
    T(cuGraphCreate, &g, 0);
    T(cuGraphInstantiate, &x, g, NULL, NULL, 0);
    T(cuGraphExecDestroy, x);
    T(cuGraphInstantiate_v2, &x, g, NULL, NULL, 0);
    T(cuGraphExecDestroy, x);
    T(cuGraphInstantiateWithParams, &x, g, &with);
    T(cuGraphExecDestroy, x);
    T(cuGraphInstantiateWithParams_ptsz, &x, g, &with);
    T(cuGraphExecDestroy, x);
    T(cuGraphInstantiate, &x, BAD(CUgraph), NULL, NULL, 0);
    T(cuGraphDestroy, g);
}

#define CAPTURE(begin, end, stream, ...)                  \
    do {                                                  \
        T(begin, stream, ##__VA_ARGS__);                  \
        CU(cuMemAllocAsync)(&p, 4 * MIB, stream);         \
        CU(cuMemAllocAsync)(&q, (size_t)1 << 50, stream); \
        T(cuMemFreeAsync, p, stream);                     \
        T(end, stream, &g);                               \
    } while (0)

static void s_capture(void) {
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUdeviceptr p = 0, q = 0;
    CUstream s = NULL, other = NULL;
    CUevent fork = NULL, join = NULL;
    start(0);
    T(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    T(cuStreamCreateWithPriority, &other, CU_STREAM_NON_BLOCKING, 0);
    T(cuEventCreate, &fork, 0);
    T(cuEventCreate, &join, 0);
    CAPTURE(cuStreamBeginCapture, cuStreamEndCapture, s);
    T(cuGraphInstantiateWithFlags, &x, g, 0);
    T(cuGraphLaunch, x, s);
    T(cuStreamSynchronize, s);
    CAPTURE(cuStreamBeginCapture_v2, cuStreamEndCapture, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CAPTURE(cuStreamBeginCapture_ptsz, cuStreamEndCapture_ptsz, s);
    CAPTURE(cuStreamBeginCapture_v2_ptsz, cuStreamEndCapture_ptsz, s,
            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
#if CUDA_VERSION >= 12030
    T(cuGraphCreate, &g, 0);
    CAPTURE(cuStreamBeginCaptureToGraph, cuStreamEndCapture, s, g, NULL, NULL, 0,
            CU_STREAM_CAPTURE_MODE_RELAXED);
    CAPTURE(cuStreamBeginCaptureToGraph_ptsz, cuStreamEndCapture_ptsz, s, g, NULL, NULL, 0,
            CU_STREAM_CAPTURE_MODE_RELAXED);
#endif
    // A stream joins the capture by an event; a third one is outside of it and allocates as ever.
    T(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
    T(cuEventRecord, fork, s);
    T(cuStreamWaitEvent, other, fork, 0);
    T(cuMemAllocAsync, &p, 6 * MIB, other);
    T(cuMemFreeAsync, p, other);
    T(cuEventRecord, join, other);
    T(cuStreamWaitEvent, s, join, 0);
    T(cuStreamEndCapture, s, &g);
    T(cuStreamEndCapture, s, &g); // does not capture
    // In a relaxed capture of one stream another one allocates for real.
    T(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
    T(cuMemAllocAsync, &q, 8 * MIB, other);
    T(cuStreamEndCapture, s, &g);
    T(cuMemFreeAsync, q, other);
    // An unsafe call invalidates a global capture.
    T(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    T(cuMemAlloc_v2, &p, MIB);
    T(cuMemAllocAsync, &p, MIB, s);
    T(cuStreamEndCapture, s, &g);
    T(cuMemAllocAsync, &p, MIB, s); // and life goes on
    T(cuMemAlloc_v2, &p, 64 * MIB);
}

// Many allocations while capturing: no cuMemGetInfo may be asked of the driver meanwhile.
static void s_capture_long(void) {
    CUdeviceptr p[50], q = 0;
    CUgraph g = NULL;
    CUstream s = NULL;
    start(0);
    T(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    T(cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < 50; i++) {
        CU(cuMemAllocAsync)(&p[i], MIB, s);
        CU(cuMemAllocAsync)(&q, (size_t)1 << 50, s); // refused: the temptation to ask
        usleep(5000);
    }
    for (int i = 0; i < 50; i++)
        CU(cuMemFreeAsync)(p[i], s);
    T(cuStreamEndCapture, s, &g);
}

// ---- contexts, limits, code --------------------------------------------------------------------

static void s_contexts(void) {
    CUcontext a = NULL, b = NULL, none = NULL;
    start(0);
    take(MIB);
    T(cuDevicePrimaryCtxRetain, &a, 0); // one more reference: no event
    T(cuDevicePrimaryCtxRetain, &none, 99);
    T(cuDevicePrimaryCtxRelease, 0);
    T(cuDevicePrimaryCtxRelease, 99);
    T(cuCtxCreate, &a, 0, 0);
    take(2 * MIB);
    T(cuCtxDestroy, a);
    T(cuCtxCreate_v2, &a, 0, 0);
    take(2 * MIB);
    T(cuCtxDestroy_v2, a);
    T(cuCtxCreate_v3, &a, NULL, 0, 0, 0);
    take(3 * MIB);
    T(cuCtxDetach, a);
#if CUDA_VERSION >= 12050
    T(cuCtxCreate_v4, &b, NULL, 0, 0);
    take(4 * MIB);
    T(cuCtxCreate_v4, &none, NULL, 0, 99);
    T(cuCtxDestroy_v2, b);
#endif
    T(cuCtxCreate, &none, 0, 99);
    T(cuCtxCreate_v2, &none, 0, 99);
    T(cuCtxCreate_v3, &none, NULL, 0, 0, 99);
    T(cuCtxDestroy, BAD(CUcontext));
    T(cuCtxDestroy_v2, BAD(CUcontext));
}

// A reset ends everything of the primary context, and the context lives on under its old name.
static void s_reset(void) {
    CUdeviceptr p, a;
    void *h;
    start(0);
    p = take(10 * MIB);
    T(cuMemHostAlloc, &h, MIB, 0);
    T(cuMemAllocAsync, &a, 5 * MIB, NULL);
    T(cuDevicePrimaryCtxReset_v2, 0);
    T(cuMemFree_v2, p);
    T(cuDevicePrimaryCtxReset_v2, 0); // there is none now
    T(cuDevicePrimaryCtxReset, 99);
    T(cuDevicePrimaryCtxReset_v2, 99);
    start(0);
    p = take(20 * MIB);
    T(cuDevicePrimaryCtxReset, 0);
    start(0);
    p = take(30 * MIB);
    T(cuDevicePrimaryCtxRelease_v2, 0); // the last reference
    start(0);
    take(3 * MIB);
}

#if CUDA_VERSION >= 12040
static void s_green(void) {
    CUdevResource r = {0};
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL, none = NULL;
    start(0);
    T(cuDeviceGetDevResource, 0, &r, CU_DEV_RESOURCE_TYPE_SM);
    T(cuDevResourceGenerateDesc, &desc, &r, 1);
    T(cuGreenCtxCreate, &green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    T(cuGreenCtxCreate, &none, desc, 99, CU_GREEN_CTX_DEFAULT_STREAM);
    take(MIB);
    T(cuGreenCtxDestroy, green);
    T(cuGreenCtxDestroy, BAD(CUgreenCtx));
}
#else
static void s_green(void) {
}
#endif

static void s_limits(void) {
    start(0);
    T(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, 128 * MIB);
    T(cuCtxSetLimit, (CUlimit)99, 1);
#if CUDA_VERSION >= 12080
    T(cuCheckpointProcessCheckpoint, getpid(), NULL);
    T(cuCheckpointProcessRestore, getpid(), NULL);
#endif
    take(MIB);
}

static void s_modules(void) {
    static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
    CUmodule m = NULL, none = NULL;
    CUlibrary l = NULL;
    char path[] = "/tmp/ways-module.XXXXXX";
    start(0);
    const int fd = mkstemp(path);
    if (fd < 0 || write(fd, ptx, sizeof ptx) < 0)
        exit(1);
    T(cuModuleLoad, &m, path);
    T(cuModuleUnload, m);
    T(cuModuleUnload, m);
    T(cuModuleLoadData, &m, ptx);
    T(cuModuleUnload, m);
    T(cuModuleLoadDataEx, &m, ptx, 0, NULL, NULL);
    T(cuModuleUnload, m);
    T(cuModuleLoadFatBinary, &m, ptx);
    T(cuModuleLoad, &none, NULL);
    T(cuModuleLoadData, &none, NULL);
    T(cuModuleLoadDataEx, &none, NULL, 0, NULL, NULL);
    T(cuModuleLoadFatBinary, &none, NULL);
    T(cuLibraryLoadData, &l, ptx, NULL, NULL, 0, NULL, NULL, 0);
    T(cuLibraryUnload, l);
    T(cuLibraryUnload, l);
    T(cuLibraryLoadFromFile, &l, path, NULL, NULL, 0, NULL, NULL, 0);
    T(cuLibraryUnload, l);
    T(cuLibraryLoadFromFile, &l, NULL, NULL, NULL, 0, NULL, NULL, 0);
    T(cuLibraryLoadData, &l, NULL, NULL, NULL, 0, NULL, NULL, 0);
    unlink(path);
    take(MIB);
}

// ---- threads -----------------------------------------------------------------------------------

enum { THREADS = 8, SLOTS = 64, ROUNDS = 400 };
static _Atomic(CUdeviceptr) slots[SLOTS];
static CUcontext shared;

// Each takes what another may free: addresses go from thread to thread as fast as the driver reuses
// them.
static void *exchange(void *seed) {
    unsigned x = (unsigned)(uintptr_t)seed * 2654435761u + 1;
    CU(cuCtxSetCurrent)(shared);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr p = 0;
        x = x * 1664525u + 1013904223u;
        const size_t bytes = (x >> 8) % 3 ? 2 * MIB : 1000;
        const int async = (x >> 20) % 4 == 0;
        if (async ? CU(cuMemAllocAsync_ptsz)(&p, bytes, NULL) : CU(cuMemAlloc_v2)(&p, bytes))
            p = 0;
        p = __atomic_exchange_n((CUdeviceptr *)&slots[(x >> 12) % SLOTS], p, __ATOMIC_ACQ_REL);
        if (p)
            (void)((x >> 24) % 2 ? CU(cuMemFree_v2)(p) : CU(cuMemFreeAsync_ptsz)(p, NULL));
    }
    return NULL;
}

// ---- memory beside the work --------------------------------------------------------------------

// Launches of a function in every way.
static void launch_all(CUfunction f) {
    CUlaunchConfig config = {0};
    CUDA_LAUNCH_PARAMS params = {0};
    params.function = f;
    T(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    T(cuLaunchKernel_ptsz, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    T(cuLaunchKernelEx, &config, f, NULL, NULL);
    T(cuLaunchKernelEx_ptsz, &config, f, NULL, NULL);
    T(cuLaunchCooperativeKernel, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
    T(cuLaunchCooperativeKernel_ptsz, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
    T(cuLaunchCooperativeKernelMultiDevice, &params, 1, 0);
    T(cuLaunch, f);
    T(cuLaunchGrid, f, 1, 1);
    T(cuLaunchGridAsync, f, 1, 1, NULL);
}

// Questions and settings of libraries before they launch.
static void ask_all(CUfunction f, CUkernel k) {
    const CUfunction_attribute what = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int n = 0;
    T(cuFuncGetAttribute, &n, what, f);
    T(cuFuncSetAttribute, f, what, 1024);
    T(cuKernelGetAttribute, &n, what, k, 0);
    T(cuKernelSetAttribute, what, 1024, k, 0);
    T(cuOccupancyMaxActiveBlocksPerMultiprocessor, &n, f, 128, 0);
    T(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &n, f, 128, 0, 0);
}

static void look_up_all(CUmodule m, CUlibrary l, const char *name) {
    CUfunction f = NULL;
    CUkernel k = NULL;
    CUmodule of_library = NULL;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    T(cuModuleGetFunction, &f, m, name);
    T(cuModuleGetGlobal_v2, &at, &bytes, m, name);
    T(cuLibraryGetKernel, &k, l, name);
    T(cuKernelGetFunction, &f, k ? k : BAD(CUkernel));
    T(cuLibraryGetModule, &of_library, l);
    T(cuLibraryGetGlobal, &at, &bytes, l, name);
    T(cuLibraryGetManaged, &at, &bytes, l, name);
#if CUDA_VERSION >= 12040
    T(cuFuncLoad, f ? f : BAD(CUfunction));
#endif
    ask_all(f ? f : BAD(CUfunction), k ? k : BAD(CUkernel));
    launch_all(f ? f : BAD(CUfunction));
}

static void s_code(void) {
    static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
    CUmodule m = NULL;
    CUlibrary l = NULL;
    start(0);
    T(cuModuleLoadData, &m, ptx);
    T(cuLibraryLoadData, &l, ptx, NULL, NULL, 0, NULL, NULL, 0);
    look_up_all(m, l, "kernel");
    look_up_all(m, l, "kernel"); // is loaded by then
    look_up_all(m, BAD(CUlibrary), "missing");
    T(cuLibraryUnload, l);
    T(cuModuleUnload, m);
}

static void s_streams(void) {
    CUstream s = NULL;
    CUevent e = NULL;
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUgraphNode node = NULL;
    CUgraphExecUpdateResult result;
    CUgraphExecUpdateResultInfo info;
    CUcontext c = start(0);
    T(cuStreamCreate, &s, CU_STREAM_DEFAULT);
    T(cuStreamCreateWithPriority, &s, CU_STREAM_NON_BLOCKING, 0);
    T(cuEventCreate, &e, CU_EVENT_DEFAULT);
    T(cuGraphCreate, &g, 0);
    T(cuGraphInstantiateWithFlags, &x, g, 0);
    T(cuGraphUpload, x, NULL);
    T(cuGraphUpload_ptsz, x, NULL);
    T(cuGraphLaunch, x, NULL);
    T(cuGraphLaunch_ptsz, x, NULL);
    T(cuGraphExecUpdate, x, g, &node, &result);
    T(cuGraphExecUpdate_v2, x, g, &info);
    T(cuCtxEnablePeerAccess, c, 0);
#if CUDA_VERSION >= 12050
    T(cuGreenCtxStreamCreate, &s, BAD(CUgreenCtx), CU_STREAM_NON_BLOCKING, 0);
#endif
    T(cuStreamCreate, NULL, 0);
    T(cuStreamCreateWithPriority, NULL, 0, 0);
    T(cuEventCreate, NULL, 0);
}

// Looks one function up again and again, as before each launch.
static void s_look_ups(void) {
    CUmodule m = NULL;
    CUfunction f = NULL;
    start(0);
    T(cuModuleLoadData, &m, "code");
    for (int i = 0; i < 1600; i++)
        if (CU(cuModuleGetFunction)(&f, m, "kernel"))
            printf("not found\n");
}

// Everything that takes memory, on a device that has none left.
static void s_exhaust(void) {
    CUmodule m = NULL;
    CUlibrary l = NULL;
    CUkernel k = NULL;
    CUfunction f = NULL;
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUcontext c = NULL;
    CUstream s = NULL;
    CUevent e = NULL;
    CUdeviceptr p;
    start(0);
    T(cuModuleLoadData, &m, "code");
    T(cuLibraryLoadData, &l, "code", NULL, NULL, 0, NULL, NULL, 0);
    T(cuLibraryGetKernel, &k, l, "kernel");
    T(cuGraphCreate, &g, 0);
    for (size_t bytes = 64 * MIB; bytes >= 2 * MIB; bytes /= 2)
        while (CU(cuMemAlloc_v2)(&p, bytes) == CUDA_SUCCESS)
            ;
    T(cuModuleGetFunction, &f, m, "kernel");
    T(cuLaunchKernel, (CUfunction)(uintptr_t)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    T(cuGraphInstantiateWithFlags, &x, g, 0);
    T(cuCtxCreate_v2, &c, 0, 0);
    T(cuStreamCreate, &s, 0);
    T(cuEventCreate, &e, 0);
}

static void s_threads(void) {
    pthread_t t[THREADS];
    shared = start(0);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, exchange, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    T(cuCtxSynchronize);
}

// Streams of one's own by default: the same call on stream 0 goes to the thread's own stream.
static void *on_own_stream(void *unused) {
    CUdeviceptr p = 0;
    CU(cuCtxSetCurrent)(shared);
    for (int i = 0; i < 10; i++) {
        CU(cuMemAllocAsync_ptsz)(&p, MIB, NULL);
        CU(cuStreamSynchronize_ptsz)(NULL);
        CU(cuMemFreeAsync_ptsz)(p, NULL);
    }
    return unused;
}

static void s_per_thread(void) {
    pthread_t t[4];
    shared = start(0);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, on_own_stream, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

const struct scenario scenarios[] = {
#define S(name) \
    { #name, s_##name }
    S(device),
    S(invalid),
    S(no_context),
    S(fill),
    S(limited),
    S(sticky),
    S(two_devices),
    S(async),
    S(pools),
    S(pool_shrinks),
    S(default_pool_shrinks),
    S(vmm),
    S(retained),
    S(expandable),
    S(multicast),
    S(arrays),
    S(sparse),
    S(host),
    S(share),
    S(graphics),
    S(graph),
    S(instantiate),
    S(capture),
    S(capture_long),
    S(contexts),
    S(reset),
    S(green),
    S(limits),
    S(modules),
    S(threads),
    S(per_thread),
    S(code),
    S(streams),
    S(look_ups),
    S(exhaust),
    {NULL, NULL}};

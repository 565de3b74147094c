// SPDX-License-Identifier: Apache-2.0
// Allocates and frees memory of every kind through the driver API, and writes its own ledger:
//   ways WAY [ipc]     WAY as in tests/interception/load.c
//   ways_elf [ipc]     linked to libcuda.so.1
// After each step it reads the free memory. It skips the steps whose function this driver lacks.
#define _GNU_SOURCE
#include "../interception/cu.h"

#include <dlfcn.h>
#include <sys/wait.h>

#include "ledger.h"

#define PTR(p) ((uint64_t)(uintptr_t)(p))
#ifdef WAYS_ELF
#define HAVE(symbol) 1
#else
#define HAVE(symbol) (CU(symbol) != NULL)
#endif

static int device;
static CUmemoryPool own_pool;

static void must(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "ways: %s\n", what);
    exit(1);
}

// Bytes that the device's default pool and our own hold; 0 where there are no pools.
static uint64_t reserved(void) {
    CUmemoryPool pool = NULL;
    cuuint64_t bytes = 0, own = 0;
    if (HAVE(cuDeviceGetDefaultMemPool) && CU(cuDeviceGetDefaultMemPool)(&pool, device) == 0)
        CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    if (own_pool)
        CU(cuMemPoolGetAttribute)(own_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &own);
    return bytes + own;
}

static void checkpoint(const char *name, const char *kind) {
    size_t free_bytes = 0, total = 0;
    must(CU(cuMemGetInfo_v2)(&free_bytes, &total) == 0, "cuMemGetInfo failed");
    ledger_checkpoint(name, kind, free_bytes, total, reserved());
}

// Before the first context only NVML can tell what is free.
static void checkpoint_before(void) {
    struct {
        unsigned long long total, free, used;
    } memory = {0, 0, 0};
    void *h = dlopen("libnvidia-ml.so.1", RTLD_NOW), *nvml_device = NULL;
    int (*init)(void) = NULL, (*get)(unsigned, void **) = NULL, (*info)(void *, void *) = NULL;
    if (!h)
        return;
    *(void **)&init = dlsym(h, "nvmlInit_v2");
    *(void **)&get = dlsym(h, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&info = dlsym(h, "nvmlDeviceGetMemoryInfo");
    if (init && get && info && !init() && !get(0, &nvml_device) && !info(nvml_device, &memory))
        ledger_checkpoint("before", "begin", memory.free, memory.total, 0);
}

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr p = 0;
    CALL("cuMemAlloc_v2", "alloc", "pb", CU(cuMemAlloc_v2)(&p, bytes), p, bytes, 0);
    return p;
}

static void give(CUdeviceptr p) {
    CALL("cuMemFree_v2", "free", "p", CU(cuMemFree_v2)(p), p, 0, 0);
}

static void step_device(void) {
    static const size_t sizes[] = {1, 100, 512, 4096, MIB, 2 * MIB, 3 * MIB + 1, 70 * MIB};
    enum { N = sizeof sizes / sizeof *sizes };
    CUdeviceptr p[N], pitched = 0;
    size_t pitch = 0;
    for (int i = 0; i < N; i++)
        p[i] = allocate(sizes[i]);
    CALL("cuMemAllocPitch_v2", "alloc", "pb",
         CU(cuMemAllocPitch_v2)(&pitched, &pitch, 1000, 333, 4), pitched, pitch * 333, 0);
    checkpoint("device", "tracked");
    for (int i = 0; i < N; i += 2)
        give(p[i]);
    give(0);
    checkpoint("device, half freed", "tracked");
    for (int i = 1; i < N; i += 2)
        give(p[i]);
    give(pitched);
    checkpoint("device, all freed", "tracked");
    allocate((size_t)1 << 50);
}

static void step_managed(void) {
    CUdeviceptr p = 0;
    CALL("cuMemAllocManaged", "alloc", "pb",
         CU(cuMemAllocManaged)(&p, 5 * MIB, CU_MEM_ATTACH_GLOBAL), p, 5 * MIB, 0);
    checkpoint("managed", "managed");
    if (p)
        give(p);
    checkpoint("managed, freed", "managed");
}

static void step_arrays(void) {
    CUDA_ARRAY_DESCRIPTOR flat = {1024, 1024, CU_AD_FORMAT_FLOAT, 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {64, 64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
    CUDA_ARRAY3D_DESCRIPTOR levels = {256, 256, 0, CU_AD_FORMAT_HALF, 4, 0};
    CUarray a = NULL, b = NULL;
    CUmipmappedArray m = NULL;
    size_t mip = 0;
    for (size_t side = 256; side >= 64; side /= 2)
        mip += side * side * 8;
    CALL("cuArrayCreate_v2", "alloc", "hb", CU(cuArrayCreate_v2)(&a, &flat), 0, 16 * MIB, PTR(a));
    CALL("cuArray3DCreate_v2", "alloc", "hb", CU(cuArray3DCreate_v2)(&b, &deep), 0, MIB, PTR(b));
    CALL("cuMipmappedArrayCreate", "alloc", "hb", CU(cuMipmappedArrayCreate)(&m, &levels, 3), 0,
         mip, PTR(m));
    checkpoint("arrays", "tracked");
    if (a)
        CALL("cuArrayDestroy", "free", "h", CU(cuArrayDestroy)(a), 0, 0, PTR(a));
    if (b)
        CALL("cuArrayDestroy", "free", "h", CU(cuArrayDestroy)(b), 0, 0, PTR(b));
    if (m)
        CALL("cuMipmappedArrayDestroy", "free", "h", CU(cuMipmappedArrayDestroy)(m), 0, 0, PTR(m));
    checkpoint("arrays, destroyed", "tracked");
}

static void step_host(void) {
    void *p = NULL, *own = aligned_alloc(4096, MIB);
    CALL("cuMemHostAlloc", "alloc", "pb", CU(cuMemHostAlloc)(&p, 3 * MIB, 0), PTR(p), 3 * MIB, 0);
    if (p)
        CALL("cuMemFreeHost", "free", "p", CU(cuMemFreeHost)(p), PTR(p), 0, 0);
    int r = -1;
    CALL("cuMemHostRegister_v2", "register", "pb", r = (int)CU(cuMemHostRegister_v2)(own, MIB, 0),
         PTR(own), MIB, 0);
    if (r == 0)
        CALL("cuMemHostUnregister", "unregister", "p", CU(cuMemHostUnregister)(own), PTR(own), 0,
             0);
    free(own);
    checkpoint("host", "context");
}

static void step_pools(void) {
    CUmemPoolProps props;
    CUdeviceptr p[3] = {0, 0, 0};
    CUstream s = NULL;
    if (!HAVE(cuMemAllocAsync))
        return;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING);
    checkpoint("stream", "context");
    CALL("cuMemAllocAsync", "alloc", "pb", CU(cuMemAllocAsync)(&p[0], 3 * MIB, s), p[0], 3 * MIB,
         0);
    CALL("cuMemAllocAsync", "alloc", "pb", CU(cuMemAllocAsync)(&p[1], 5000, s), p[1], 5000, 0);
    checkpoint("asynchronous", "pool");
    for (int i = 0; i < 2; i++)
        if (p[i])
            CALL("cuMemFreeAsync", "free", "p", CU(cuMemFreeAsync)(p[i], s), p[i], 0, 0);
    CU(cuStreamSynchronize)(s);
    checkpoint("asynchronous, freed", "pool");
    CALL("cuMemPoolCreate", "pool-create", "", CU(cuMemPoolCreate)(&own_pool, &props), 0, 0, 0);
    CALL("cuMemAllocFromPoolAsync", "alloc", "pb",
         CU(cuMemAllocFromPoolAsync)(&p[2], 40 * MIB, own_pool, s), p[2], 40 * MIB, 0);
    checkpoint("own pool", "pool");
    if (p[2])
        CALL("cuMemFreeAsync", "free", "p", CU(cuMemFreeAsync)(p[2], s), p[2], 0, 0);
    CU(cuStreamSynchronize)(s);
    CALL("cuMemPoolTrimTo", "pool-trim", "b", CU(cuMemPoolTrimTo)(own_pool, 0), 0, 0, 0);
    CALL("cuMemPoolDestroy", "pool-destroy", "", CU(cuMemPoolDestroy)(own_pool), 0, 0, 0);
    own_pool = NULL;
    CU(cuStreamDestroy_v2)(s);
    checkpoint("own pool, destroyed", "pool");
}

static void step_vmm(void) {
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle h = 0;
    CUdeviceptr va = 0;
    const size_t bytes = 64 * MIB;
    if (!HAVE(cuMemCreate))
        return;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    memset(&access, 0, sizeof access);
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CALL("cuMemAddressReserve", "reserve", "pb", CU(cuMemAddressReserve)(&va, 2 * bytes, 0, 0, 0),
         va, 2 * bytes, 0);
    CALL("cuMemCreate", "create", "hb", CU(cuMemCreate)(&h, bytes, &prop, 0), 0, bytes, h);
    if (va && h) {
        CALL("cuMemMap", "map", "pbh", CU(cuMemMap)(va, bytes, 0, h, 0), va, bytes, h);
        CALL("cuMemSetAccess", "access", "", CU(cuMemSetAccess)(va, bytes, &access, 1), 0, 0, 0);
        checkpoint("mapped", "tracked");
        CALL("cuMemRelease", "release", "h", CU(cuMemRelease)(h), 0, 0, h);
        checkpoint("released, still mapped", "tracked");
        CALL("cuMemUnmap", "unmap", "pb", CU(cuMemUnmap)(va, bytes), va, bytes, 0);
    }
    if (va)
        CALL("cuMemAddressFree", "unreserve", "pb", CU(cuMemAddressFree)(va, 2 * bytes), va,
             2 * bytes, 0);
    checkpoint("unmapped", "tracked");
}

static void step_graph(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUgraphNode taken = NULL, given = NULL;
    if (!HAVE(cuGraphAddMemAllocNode) || !HAVE(cuGraphInstantiateWithFlags))
        return;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = device;
    params.bytesize = 24 * MIB;
    must(CU(cuGraphCreate)(&g, 0) == 0, "cuGraphCreate failed");
    CALL("cuGraphAddMemAllocNode", "graph-alloc", "pb",
         CU(cuGraphAddMemAllocNode)(&taken, g, NULL, 0, &params), params.dptr, 24 * MIB, 0);
    CALL("cuGraphAddMemFreeNode", "graph-free", "p",
         CU(cuGraphAddMemFreeNode)(&given, g, &taken, 1, params.dptr), params.dptr, 0, 0);
    must(CU(cuGraphInstantiateWithFlags)(&x, g, 0) == 0, "cuGraphInstantiate failed");
    checkpoint("graph, instantiated", "graph");
    CU(cuGraphLaunch)(x, NULL);
    CU(cuStreamSynchronize)(NULL);
    checkpoint("graph, launched", "graph");
    CU(cuGraphExecDestroy)(x);
    CU(cuGraphDestroy)(g);
    CALL("cuDeviceGraphMemTrim", "pool-trim", "", CU(cuDeviceGraphMemTrim)(device), 0, 0, 0);
    checkpoint("graph, trimmed", "graph");
}

static void step_module(void) {
    static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                              ".visible .global .align 4 .b8 table[4194304];\n"
                              ".visible .entry nothing()\n{\nret;\n}\n";
    CUmodule m = NULL;
    CALL("cuModuleLoadData", "module-load", "h", CU(cuModuleLoadData)(&m, ptx), 0, 0, PTR(m));
    checkpoint("module", "module");
    if (m)
        CALL("cuModuleUnload", "module-unload", "h", CU(cuModuleUnload)(m), 0, 0, PTR(m));
    checkpoint("module, unloaded", "module");
    CALL("cuCtxSetLimit", "limit", "hb", CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 96 * MIB), 0,
         96 * MIB, CU_LIMIT_MALLOC_HEAP_SIZE);
    checkpoint("limit", "context");
}

// ---- two processes ------------------------------------------------------------------------------

static void ipc_child(const char *file) {
    CUipcMemHandle handle;
    CUdeviceptr p = 0;
    int fd = open(file, O_RDONLY);
    must(read(fd, &handle, sizeof handle) == sizeof handle, "no handle from the other process");
    CALL("cuIpcOpenMemHandle_v2", "ipc-open", "p",
         CU(cuIpcOpenMemHandle_v2)(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), p, 0, 0);
    if (p)
        CALL("cuIpcCloseMemHandle", "ipc-close", "p", CU(cuIpcCloseMemHandle)(p), p, 0, 0);
}

static void step_ipc(char **argv) {
    char file[] = "/tmp/gpu-ipc.XXXXXX";
    CUipcMemHandle handle;
    CUdeviceptr p = allocate(6 * MIB);
    int status = -1, fd = mkstemp(file);
    CALL("cuIpcGetMemHandle", "export", "p", CU(cuIpcGetMemHandle)(&handle, p), p, 0, 0);
    must(fd >= 0 && write(fd, &handle, sizeof handle) == sizeof handle, "cannot write the handle");
    setenv("GPU_IPC", file, 1);
    pid_t child = fork();
    if (child == 0) {
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    must(waitpid(child, &status, 0) == child && status == 0, "the other process failed");
    unlink(file);
    give(p);
}

int main(int argc, char **argv) {
    CUcontext context = NULL;
    const char *ipc = getenv("GPU_IPC");
#ifndef WAYS_ELF
    if (argc < 2)
        return 2;
    load(argv[1]);
#endif
    if (!ipc)
        checkpoint_before();
    must(CU(cuInit)(0) == 0, "cuInit failed");
    must(CU(cuDevicePrimaryCtxRetain)(&context, device) == 0, "no context");
    must(CU(cuCtxSetCurrent)(context) == 0, "cuCtxSetCurrent failed");
    checkpoint("context", "context");
    if (ipc) {
        ipc_child(ipc);
    } else if (argc > 1 && !strcmp(argv[argc - 1], "ipc")) {
        step_ipc(argv);
    } else {
        step_device();
        step_managed();
        step_arrays();
        step_host();
        step_pools();
        step_vmm();
        step_graph();
        step_module();
    }
    return 0;
}

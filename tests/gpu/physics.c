// SPDX-License-Identifier: Apache-2.0
// What memory costs: one JSON object a line. physics TOPIC [quick]; each topic in a process of its
// own.
#define _GNU_SOURCE
#include "../interception/cu.h"

#include <dlfcn.h>
#include <time.h>

static int quick;
static CUcontext context;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(CUresult r, const char *what) {
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "physics: %s returns %d\n", what, (int)r);
    exit(1);
}
#define MUST(symbol, ...) must(CU(symbol)(__VA_ARGS__), #symbol)

static long long free_now(void) {
    size_t free_bytes = 0, total = 0;
    MUST(cuMemGetInfo_v2, &free_bytes, &total);
    return (long long)free_bytes;
}

static int by_value(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n ? v[n / 2] : 0;
}

static CUmemAllocationProp on_device(void) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

// ---- topics -------------------------------------------------------------------------------------

static void t_context(void) {
    struct {
        unsigned long long total, free, used;
    } before = {0, 0, 0}, after = {0, 0, 0};
    void *h = dlopen("libnvidia-ml.so.1", RTLD_NOW), *d = NULL;
    int (*init)(void) = NULL, (*get)(unsigned, void **) = NULL, (*info)(void *, void *) = NULL;
    size_t total = 0, free_bytes = 0, device_total = 0;
    CUresult (*total_mem)(size_t *, CUdevice) = (CUresult(*)(size_t *, CUdevice))dlsym(
        dlopen("libcuda.so.1", RTLD_NOW), "cuDeviceTotalMem_v2");
    if (h) {
        *(void **)&init = dlsym(h, "nvmlInit_v2");
        *(void **)&get = dlsym(h, "nvmlDeviceGetHandleByIndex_v2");
        *(void **)&info = dlsym(h, "nvmlDeviceGetMemoryInfo");
    }
    const int nvml = init && get && info && !init() && !get(0, &d) && !info(d, &before);
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuMemGetInfo_v2, &free_bytes, &total);
    if (total_mem)
        total_mem(&device_total, 0);
    if (nvml)
        info(d, &after);
    printf(
        "{\"nvml\":%s,\"nvml_total\":%llu,\"nvml_before\":%llu,\"nvml_after\":%llu,\"free\":%zu,\"total\":%zu,"
        "\"device_total\":%zu}\n",
        nvml ? "true" : "false", before.total, before.free, after.free, free_bytes, total,
        device_total);
}

// N allocations of one size: their addresses' steps, what "free" lost, and what came back.
static void one_size(size_t bytes) {
    enum { MOST = 64 };
    CUdeviceptr p[MOST];
    uint64_t address[MOST], step[MOST], align = 0;
    const long long before = free_now();
    long long fit = before / 4 / (long long)bytes, first = 0;
    int n = fit > MOST ? MOST : (int)fit;
    if (bytes > 64 * MIB && n > 4)
        n = 4;
    if (n < 2)
        return;
    for (int i = 0; i < n; i++) {
        MUST(cuMemAlloc_v2, &p[i], bytes);
        address[i] = p[i];
        align |= p[i];
        if (i == 0)
            first = before - free_now();
    }
    const long long taken = before - free_now();
    qsort(address, (size_t)n, sizeof *address, by_value);
    for (int i = 1; i < n; i++)
        step[i - 1] = address[i] - address[i - 1];
    for (int i = 1; i < n; i++)
        MUST(cuMemFree_v2, p[i]);
    const long long one_left = before - free_now();
    MUST(cuMemFree_v2, p[0]);
    printf(
        "{\"bytes\":%zu,\"n\":%d,\"first\":%lld,\"taken\":%lld,\"one_left\":%lld,\"none_left\":%lld,"
        "\"step\":%llu,\"least_step\":%llu,\"align\":%llu}\n",
        bytes, n, first, taken, one_left, before - free_now(),
        (unsigned long long)median(step, n - 1), (unsigned long long)step[0],
        (unsigned long long)(align & -align));
}

static void t_sizes(void) {
    for (size_t bytes = 1; bytes <= 1024 * MIB; bytes *= quick ? 16 : 2) {
        one_size(bytes);
        if (bytes >= 256 && !quick)
            one_size(bytes + 1);
    }
    one_size(MIB);
    one_size(MIB + 1);
    one_size(2 * MIB);
    one_size(2 * MIB + 1);
}

static cuuint64_t pool_bytes(CUmemoryPool pool) {
    cuuint64_t v = 0;
    MUST(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v);
    return v;
}

static void t_pool(void) {
    CUmemoryPool pool = NULL;
    CUdeviceptr p[128];
    CUstream s = NULL;
    int n = 0, growths = 0;
    uint64_t growth[128];
    cuuint64_t last = 0, keep = UINT64_MAX;
    MUST(cuDeviceGetDefaultMemPool, &pool, 0);
    MUST(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    const long long before = free_now();
    MUST(cuMemAllocAsync, &p[n++], 1, s);
    MUST(cuStreamSynchronize, s);
    const long long first = before - free_now();
    last = pool_bytes(pool);
    const cuuint64_t reserved_first = last;
    const long long room = free_now() / 4 / (long long)(4 * MIB);
    while (n < 128 && n < room) {
        MUST(cuMemAllocAsync, &p[n++], 4 * MIB, s);
        const cuuint64_t now = pool_bytes(pool);
        if (now != last)
            growth[growths++] = now - last;
        last = now;
    }
    const cuuint64_t full = last;
    for (int i = 1; i < n; i++)
        MUST(cuMemFreeAsync, p[i], s);
    const cuuint64_t freed = pool_bytes(pool);
    MUST(cuStreamSynchronize, s);
    const cuuint64_t synchronised = pool_bytes(pool);
    MUST(cuMemFreeAsync, p[0], s);
    MUST(cuStreamSynchronize, s);
    const cuuint64_t empty = pool_bytes(pool);
    const long long free_empty = before - free_now();
    MUST(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    MUST(cuMemAllocAsync, &p[0], 100 * MIB, s);
    MUST(cuMemFreeAsync, p[0], s);
    MUST(cuStreamSynchronize, s);
    const cuuint64_t kept = pool_bytes(pool);
    MUST(cuMemPoolTrimTo, pool, 0);
    printf(
        "{\"first\":%lld,\"reserved_first\":%llu,\"growth\":%llu,\"growths\":%d,\"full\":%llu,\"freed\":%llu,"
        "\"synchronised\":%llu,\"empty\":%llu,\"free_empty\":%lld,\"kept\":%llu,\"trimmed\":%llu}\n",
        first, (unsigned long long)reserved_first, (unsigned long long)median(growth, growths),
        growths, (unsigned long long)full, (unsigned long long)freed,
        (unsigned long long)synchronised, (unsigned long long)empty, free_empty,
        (unsigned long long)kept, (unsigned long long)pool_bytes(pool));
}

static void t_graph(void) {
    enum { N = 16, NODES = 64 };
    CUDA_MEMSET_NODE_PARAMS params;
    CUgraphExec x[N];
    CUgraphNode node = NULL, last = NULL;
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    typedef CUresult (*adder)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                              const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
    adder add = (adder)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphAddMemsetNode");
    MUST(cuMemAlloc_v2, &p, 4 * MIB);
    MUST(cuGraphCreate, &g, 0);
    memset(&params, 0, sizeof params);
    params.dst = p;
    params.elementSize = 1;
    params.width = 1024;
    params.height = 1;
    int nodes = 0;
    for (int i = 0; add && i < NODES; i++, nodes++) {
        must(add(&node, g, last ? &last : NULL, last != NULL, &params, context),
             "cuGraphAddMemsetNode");
        last = node;
    }
    const long long before = free_now();
    for (int i = 0; i < N; i++)
        MUST(cuGraphInstantiateWithFlags, &x[i], g, 0);
    const long long instantiated = before - free_now();
    for (int i = 0; i < N; i++)
        MUST(cuGraphLaunch, x[i], NULL);
    MUST(cuStreamSynchronize, NULL);
    const long long launched = before - free_now();
    for (int i = 0; i < N; i++)
        MUST(cuGraphExecDestroy, x[i]);
    printf("{\"n\":%d,\"nodes\":%d,\"instantiated\":%lld,\"launched\":%lld,\"destroyed\":%lld}\n",
           N, nodes, instantiated, launched, before - free_now());
}

static void t_limits(void) {
    static const struct {
        const char *name;
        CUlimit limit;
        size_t value;
    } set[] = {{"MALLOC_HEAP_SIZE", CU_LIMIT_MALLOC_HEAP_SIZE, 128 * MIB},
               {"PRINTF_FIFO_SIZE", CU_LIMIT_PRINTF_FIFO_SIZE, 32 * MIB},
               {"STACK_SIZE", CU_LIMIT_STACK_SIZE, 8192}};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        const long long before = free_now();
        const CUresult r = CU(cuCtxSetLimit)(set[i].limit, set[i].value);
        printf("{\"limit\":\"%s\",\"value\":%zu,\"result\":%d,\"taken\":%lld}\n", set[i].name,
               set[i].value, (int)r, before - free_now());
    }
}

static void t_vmm(void) {
    typedef CUresult (*asker)(size_t *, const CUmemAllocationProp *,
                              CUmemAllocationGranularity_flags);
    asker ask = (asker)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetAllocationGranularity");
    CUmemAllocationProp prop = on_device();
    CUmemGenericAllocationHandle h = 0;
    size_t least = 0, best = 0;
    must(ask ? ask(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) : CUDA_ERROR_NOT_FOUND,
         "granularity");
    ask(&best, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    const long long before = free_now();
    MUST(cuMemCreate, &h, least, &prop, 0);
    const long long taken = before - free_now();
    const CUresult odd = CU(cuMemCreate)(&h, least + 1, &prop, 0);
    printf("{\"minimum\":%zu,\"recommended\":%zu,\"taken\":%lld,\"odd\":%d}\n", least, best, taken,
           (int)odd);
}

static void t_managed(void) {
    typedef CUresult (*setter)(CUdeviceptr, unsigned char, size_t);
    setter set = (setter)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemsetD8_v2");
    const size_t bytes = 64 * MIB;
    CUdeviceptr p = 0;
    long long before = free_now();
    if ((long long)bytes > before / 4)
        return;
    MUST(cuMemAllocManaged, &p, bytes, CU_MEM_ATTACH_GLOBAL);
    const long long allocated = before - free_now();
    if (set)
        must(set(p, 1, bytes), "cuMemsetD8");
    MUST(cuStreamSynchronize, NULL);
    const long long touched = before - free_now();
    MUST(cuMemFree_v2, p);
    printf("{\"bytes\":%zu,\"allocated\":%lld,\"touched\":%lld,\"freed\":%lld}\n", bytes, allocated,
           touched, before - free_now());
}

static void t_module(void) {
    static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                              ".visible .entry nothing()\n{\nret;\n}\n";
    typedef CUresult (*getter)(CUfunction *, CUmodule, const char *);
    typedef CUresult (*launcher)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream, void **, void **);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    getter get = (getter)dlsym(driver, "cuModuleGetFunction");
    launcher launch = (launcher)dlsym(driver, "cuLaunchKernel");
    enum { N = 16 };
    CUmodule m[N];
    CUfunction f = NULL;
    const long long before = free_now();
    for (int i = 0; i < N; i++)
        MUST(cuModuleLoadData, &m[i], ptx);
    const long long loaded = before - free_now();
    for (int i = 0; i < N; i++) {
        must(get ? get(&f, m[i], "nothing") : CUDA_ERROR_NOT_FOUND, "cuModuleGetFunction");
        must(launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
    }
    MUST(cuStreamSynchronize, NULL);
    const long long launched = before - free_now();
    for (int i = 0; i < N; i++)
        MUST(cuModuleUnload, m[i]);
    printf("{\"n\":%d,\"loaded\":%lld,\"launched\":%lld,\"unloaded\":%lld}\n", N, loaded, launched,
           before - free_now());
}

// Is cuMemGetInfo allowed while a stream captures, and does the capture survive?
static void t_capture(void) {
    CUgraph g = NULL;
    CUstream s = NULL;
    size_t free_bytes, total;
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    static const char *const names[] = {"global", "thread-local", "relaxed"};
    MUST(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 3; i++) {
        MUST(cuStreamBeginCapture_v2, s, modes[i]);
        const CUresult asked = CU(cuMemGetInfo_v2)(&free_bytes, &total);
        const CUresult ended = CU(cuStreamEndCapture)(s, &g);
        printf("{\"mode\":\"%s\",\"cuMemGetInfo\":%d,\"capture\":%d}\n", names[i], (int)asked,
               (int)ended);
    }
}

// ---- costs: medians in nanoseconds --------------------------------------------------------------

enum { ROUNDS = 200 };
static uint64_t first_cost[ROUNDS], second_cost[ROUNDS];

static void say_costs(const char *first, const char *second, size_t bytes, int rounds) {
    printf("{\"call\":\"%s\",\"bytes\":%zu,\"ns\":%llu,\"rounds\":%d}\n", first, bytes,
           (unsigned long long)median(first_cost, rounds), rounds);
    if (second)
        printf("{\"call\":\"%s\",\"bytes\":%zu,\"ns\":%llu,\"rounds\":%d}\n", second, bytes,
               (unsigned long long)median(second_cost, rounds), rounds);
}

// Evaluates BEGIN and END once a round, each between two clock readings.
#define MEASURE(first, second, bytes, BEGIN, END) \
    do {                                          \
        for (int i_ = 0; i_ < rounds; i_++) {     \
            uint64_t t_ = now_ns();               \
            BEGIN;                                \
            first_cost[i_] = now_ns() - t_;       \
            t_ = now_ns();                        \
            END;                                  \
            second_cost[i_] = now_ns() - t_;      \
        }                                         \
        say_costs(first, second, bytes, rounds);  \
    } while (0)

static void t_costs(void) {
    static const size_t sizes[] = {1024, 2 * MIB, 64 * MIB};
    const int rounds = quick ? 20 : ROUNDS;
    CUmemAllocationProp prop = on_device();
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h = 0;
    CUdeviceptr p = 0, va = 0;
    CUstream s = NULL;
    const size_t granule = 32 * MIB;
    MUST(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = sizes[i];
        MEASURE("cuMemAlloc_v2", "cuMemFree_v2", bytes, MUST(cuMemAlloc_v2, &p, bytes),
                MUST(cuMemFree_v2, p));
        MEASURE("cuMemAllocAsync", "cuMemFreeAsync", bytes, MUST(cuMemAllocAsync, &p, bytes, s),
                MUST(cuMemFreeAsync, p, s));
        MUST(cuStreamSynchronize, s);
    }
    MUST(cuMemAddressReserve, &va, granule, 0, 0, 0);
    MEASURE(
        "cuMemCreate+cuMemMap+cuMemSetAccess", "cuMemUnmap+cuMemRelease", granule,
        {
            MUST(cuMemCreate, &h, granule, &prop, 0);
            MUST(cuMemMap, va, granule, 0, h, 0);
            MUST(cuMemSetAccess, va, granule, &access, 1);
        },
        {
            MUST(cuMemUnmap, va, granule);
            MUST(cuMemRelease, h);
        });
    MEASURE("cuMemGetInfo_v2", NULL, (size_t)0, free_now(), (void)0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } topics[] = {{"context", t_context}, {"sizes", t_sizes},   {"pool", t_pool},
                  {"graph", t_graph},     {"limits", t_limits}, {"vmm", t_vmm},
                  {"managed", t_managed}, {"module", t_module}, {"capture", t_capture},
                  {"costs", t_costs}};
    quick = argc > 2 && !strcmp(argv[2], "quick");
    load("dlsym");
    for (size_t i = 0; argc > 1 && i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(argv[1], topics[i].name) != 0)
            continue;
        if (topics[i].run != t_context) {
            MUST(cuInit, 0);
            MUST(cuDevicePrimaryCtxRetain, &context, 0);
            MUST(cuCtxSetCurrent, context);
        }
        topics[i].run();
        return 0;
    }
    return 2;
}

// SPDX-License-Identifier: Apache-2.0
// Random sequences of calls, valid and invalid: random_calls SEED SEQUENCES CALLS THREADS. Slots
// that are empty, or were freed and kept, make the invalid ones. Prints a checksum of the results.
#define _GNU_SOURCE
#include "cu.h"

#include <pthread.h>

enum { SLOTS = 12 };

struct world {
    uint64_t seed, sum;
    int alone; // may destroy what other threads use, and use what it has freed
    CUcontext primary, own;
    CUstream stream;
    CUmemoryPool pool;
    CUdeviceptr device[SLOTS], async[SLOTS], va[SLOTS];
    size_t va_size[SLOTS], mapped[SLOTS]; // mapped: bytes at the start of the range
    CUmemGenericAllocationHandle handle[SLOTS];
    CUarray array[SLOTS];
    CUmipmappedArray mipmap[SLOTS];
    void *host[SLOTS];
    CUmodule module[SLOTS];
    CUgraph graph;
};

static unsigned roll(struct world *w, unsigned n) {
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

static int note(struct world *w, CUresult r) {
    w->sum = w->sum * 31 + (unsigned)r;
    return r == CUDA_SUCCESS;
}

static size_t some_bytes(struct world *w) {
    static const size_t sizes[] = {0,       1,       500,     512,      4096,
                                   1 << 20, 2 << 20, 3 << 20, 20 << 20, 200 << 20};
    return roll(w, 40) == 0 ? (size_t)1 << 50
                            : sizes[roll(w, 10)] + (roll(w, 4) == 0 ? roll(w, 1000) : 0);
}

// Mostly one of ours, sometimes nonsense. An address that is not allocated may be another thread's
// by the time of the call: its free may begin before that allocation has returned, and end later.
static CUdeviceptr some_ptr(struct world *w, CUdeviceptr *slots, int *at) {
    *at = (int)roll(w, SLOTS);
    switch (roll(w, 20)) {
    case 0:
        return 0xdead0000;
    case 1:
        return w->alone ? slots[*at] + 4096 : 0xdead0000;
    default:
        return slots[*at];
    }
}

#define N(symbol, ...) note(w, CU(symbol)(__VA_ARGS__))

static void device(struct world *w) {
    int i = (int)roll(w, SLOTS);
    CUdeviceptr p = 0;
    size_t pitch = 0;
    switch (roll(w, 7)) {
    case 0:
        if (N(cuMemAllocPitch_v2, &p, &pitch, some_bytes(w) % 100000, roll(w, 50),
              4u << roll(w, 4)))
            w->device[i] = p;
        break;
    case 1:
        if (N(cuMemAllocManaged, &p, some_bytes(w), 1 + roll(w, 3)))
            w->device[i] = p;
        break;
    case 2:
    case 3:
        if (N(cuMemAlloc_v2, &p, some_bytes(w)))
            w->device[i] = p;
        break;
    case 4:
        N(cuMemAlloc_v2, NULL, 4096);
        break;
    default:
        p = some_ptr(w, w->device, &i);
        if (N(cuMemFree_v2, p) && (roll(w, 8) || !w->alone))
            w->device[i] = 0;
    }
}

static void async(struct world *w) {
    int i = (int)roll(w, SLOTS);
    CUdeviceptr p = 0;
    switch (roll(w, 8)) {
    case 0:
        if (N(cuMemAllocAsync, &p, some_bytes(w), w->stream))
            w->async[i] = p;
        break;
    case 1:
        if (N(cuMemAllocAsync_ptsz, &p, some_bytes(w), NULL))
            w->async[i] = p;
        break;
    case 2:
        if (N(cuMemAllocFromPoolAsync, &p, some_bytes(w), w->pool, w->stream))
            w->async[i] = p;
        break;
    case 3:
        N(cuMemPoolTrimTo, w->pool, roll(w, 2) ? 0 : 32 * MIB);
        break;
    case 4:
        N(cuStreamSynchronize, w->stream);
        break;
    default:
        p = some_ptr(w, w->async, &i);
        if ((roll(w, 3) ? N(cuMemFreeAsync, p, w->stream) : N(cuMemFree_v2, p)) &&
            (roll(w, 8) || !w->alone))
            w->async[i] = 0;
    }
}

static void vmm(struct world *w) {
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle h = 0;
    CUdeviceptr p = 0;
    const int i = (int)roll(w, SLOTS), j = (int)roll(w, SLOTS);
    const size_t size = (size_t)(1 + roll(w, 4)) * 2 * MIB + (roll(w, 15) ? 0 : 1);
    size_t n;
    memset(&prop, 0, sizeof prop);
    memset(&access, 0, sizeof access);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    switch (roll(w, 8)) {
    case 0:
        if (w->va[i] && w->alone) { // a freed range may be another thread's by now
            if (N(cuMemAddressFree, w->va[i], w->va_size[i]))
                w->va[i] = 0;
        } else if (!w->va[i] && N(cuMemAddressReserve, &p, size, 0, 0, 0))
            w->va[i] = p, w->va_size[i] = size;
        break;
    case 1:
        if (N(cuMemCreate, &h, size, &prop, 0))
            w->handle[i] = h;
        break;
    case 2:
    case 3:
        n = roll(w, 6) ? 2 * MIB : w->va_size[i];
        if (N(cuMemMap, w->va[i], n, 0, w->handle[j], 0))
            w->mapped[i] = n;
        break;
    case 4:
        N(cuMemSetAccess, w->va[i], 2 * MIB, &access, 1);
        break;
    case 5: // what is mapped, and all of it: an unmap is final (tentative.h), also one that fails
        if (N(cuMemUnmap, w->va[i], w->mapped[i] ? w->mapped[i] : 2 * MIB))
            w->mapped[i] = 0;
        break;
    case 6:
        if (N(cuMemRetainAllocationHandle, &h, (void *)(uintptr_t)w->va[i]) && roll(w, 2))
            N(cuMemRelease, h);
        break;
    default:
        N(cuMemRelease, w->handle[i]);
        w->handle[i] = 0;
    }
}

static void arrays(struct world *w) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    const int i = (int)roll(w, SLOTS);
    memset(&d, 0, sizeof d);
    d.Width = roll(w, 300);
    d.Height = roll(w, 100);
    d.Depth = roll(w, 3) ? 0 : roll(w, 10);
    d.Format = CU_AD_FORMAT_FLOAT;
    d.NumChannels = 1u << roll(w, 3);
    switch (roll(w, 4)) {
    case 0:
        N(cuArray3DCreate_v2, &w->array[i], &d);
        break;
    case 1:
        N(cuMipmappedArrayCreate, &w->mipmap[i], &d, roll(w, 12));
        break;
    case 2:
        if (N(cuArrayDestroy, w->array[i]))
            w->array[i] = NULL;
        break;
    default:
        if (N(cuMipmappedArrayDestroy, w->mipmap[i]))
            w->mipmap[i] = NULL;
    }
}

static void host(struct world *w) {
    const int i = (int)roll(w, SLOTS);
    void *p = NULL;
    switch (roll(w, 3)) {
    case 0:
        if (N(cuMemHostAlloc, &p, some_bytes(w) % (4 * MIB), roll(w, 20) ? 0 : 0xff00))
            w->host[i] = p;
        break;
    case 1:
        if (N(cuMemAllocHost_v2, &p, some_bytes(w) % (4 * MIB)))
            w->host[i] = p;
        break;
    default:
        N(cuMemFreeHost, w->host[i]);
        w->host[i] = NULL;
    }
}

// What was in the context is gone. A handle is an address of the heap, and host memory one that the
// kernel chose: something else may have got it, and using it again would end differently from run
// to run.
static void forget(struct world *w) {
    w->own = NULL;
    memset(w->array, 0, sizeof w->array);
    memset(w->mipmap, 0, sizeof w->mipmap);
    memset(w->module, 0, sizeof w->module);
    memset(w->host, 0, sizeof w->host);
    N(cuCtxSetCurrent, w->primary);
}

static void other(struct world *w) {
    static const char image[] = "image";
    const int i = (int)roll(w, SLOTS);
    size_t a, b;
    CUdeviceptr p = 0;
    switch (roll(w, 7)) {
    case 0:
        N(cuMemGetInfo_v2, &a, &b);
        break;
    case 1:
        N(cuModuleLoadData, &w->module[i], image);
        break;
    case 2:
        if (N(cuModuleUnload, w->module[i]))
            w->module[i] = NULL;
        break;
    case 3:
        N(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)(8 + roll(w, 16)) * MIB);
        break;
    case 4:
        if (N(cuStreamBeginCapture_v2, w->stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
            N(cuMemAllocAsync, &p, some_bytes(w), w->stream);
            if (roll(w, 2))
                N(cuMemFreeAsync, p, w->stream);
            N(cuStreamEndCapture, w->stream, &w->graph);
        }
        break;
    case 5:
        if (w->alone && !w->own)
            N(cuCtxCreate_v2, &w->own, 0, (int)roll(w, 2));
        else if (w->own && N(cuCtxDestroy_v2, w->own))
            forget(w);
        break;
    default:
        N(cuCtxSynchronize);
    }
}

// What is freed may be freed already, or never have been.
static void clean(struct world *w) {
    if (w->own && N(cuCtxDestroy_v2, w->own))
        forget(w);
    for (int i = 0; i < SLOTS; i++) {
        if (w->device[i])
            N(cuMemFree_v2, w->device[i]);
        if (w->async[i])
            N(cuMemFreeAsync, w->async[i], NULL);
        if (w->va[i]) {
            N(cuMemUnmap, w->va[i], w->va_size[i]);
            N(cuMemAddressFree, w->va[i], w->va_size[i]);
        }
        if (w->handle[i])
            N(cuMemRelease, w->handle[i]);
        if (w->array[i])
            N(cuArrayDestroy, w->array[i]);
        if (w->mipmap[i])
            N(cuMipmappedArrayDestroy, w->mipmap[i]);
        if (w->host[i])
            N(cuMemFreeHost, w->host[i]);
        if (w->module[i])
            N(cuModuleUnload, w->module[i]);
    }
}

static void sequence(struct world *w, int calls) {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    N(cuStreamCreate, &w->stream, CU_STREAM_NON_BLOCKING);
    N(cuMemPoolCreate, &w->pool, &props);
    for (int i = 0; i < calls; i++) {
        static void (*const family[])(struct world *) = {device, async, vmm,    arrays,
                                                         host,   other, device, vmm};
        family[roll(w, 8)](w);
    }
    if (roll(w, 50)) // else it stays, and counts
        clean(w);
    N(cuMemPoolDestroy, w->pool);
    N(cuStreamDestroy_v2, w->stream);
    if (w->alone && roll(w, 20) == 0) {
        N(cuDevicePrimaryCtxReset_v2, 0);
        N(cuDevicePrimaryCtxRetain, &w->primary, 0);
        N(cuCtxSetCurrent, w->primary);
    }
    const struct world kept = *w;
    memset(w, 0, sizeof *w);
    w->seed = kept.seed;
    w->sum = kept.sum;
    w->alone = kept.alone;
    w->primary = kept.primary;
}

static unsigned long seed, sequences, calls, threads;

static void *work(void *number) {
    struct world world, *w = &world;
    memset(w, 0, sizeof *w);
    w->seed = (seed + (uintptr_t)number) * 0x9E3779B97F4A7C15u + 1;
    w->alone = threads == 1;
    N(cuDevicePrimaryCtxRetain, &w->primary, 0);
    N(cuCtxSetCurrent, w->primary);
    for (unsigned long i = 0; i < sequences; i++)
        sequence(w, (int)calls);
    if (w->alone)
        printf("%016llx\n", (unsigned long long)w->sum);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t t[64];
    if (argc != 5)
        return 2;
    seed = strtoul(argv[1], NULL, 10);
    sequences = strtoul(argv[2], NULL, 10);
    calls = strtoul(argv[3], NULL, 10);
    threads = strtoul(argv[4], NULL, 10);
    CU(cuInit)(0);
    if (threads == 1)
        work(NULL);
    for (unsigned long i = 0; threads > 1 && i < threads && i < 64; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (unsigned long i = 0; threads > 1 && i < threads && i < 64; i++)
        pthread_join(t[i], NULL);
    return 0;
}

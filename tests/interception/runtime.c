// SPDX-License-Identifier: Apache-2.0
// A program of the runtime API: each function that takes or gives back, with success and failure.
#define _GNU_SOURCE
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define T(call) printf("%s: %d\n", #call, (int)(call))
#define MIB ((size_t)1 << 20)
#define EXTENT(w, h, d) ((struct cudaExtent){w, h, d})
#define NOWHERE ((void *)0xdead0000)

static void device(void) {
    void *p = NULL, *q = NULL;
    size_t pitch = 0, free_bytes, total;
    struct cudaPitchedPtr pp;
    T(cudaMalloc(&p, 3 * MIB));
    T(cudaMalloc(&q, (size_t)1 << 50));
    T(cudaMalloc(&q, 0));
    T(cudaFree(NULL));
    T(cudaFree(NOWHERE));
    T(cudaFree(p));
    T(cudaMallocPitch(&p, &pitch, 1000, 33));
    T(cudaFree(p));
    T(cudaMalloc3D(&pp, EXTENT(100, 20, 3)));
    T(cudaMallocManaged(&p, 2 * MIB, cudaMemAttachGlobal));
    T(cudaFree(p));
    T(cudaMemGetInfo(&free_bytes, &total));
    T(cudaMalloc(&p, 5 * MIB)); // stays
}

static void async(void) {
    struct cudaMemPoolProps props;
    struct cudaMemAccessDesc access;
    cudaMemPool_t pool = NULL;
    cudaStream_t s = NULL;
    void *p = NULL, *q = NULL;
    T(cudaStreamCreate(&s));
    T(cudaMallocAsync(&p, 4 * MIB, s));
    T(cudaFreeAsync(p, s));
    T(cudaMallocAsync(&q, (size_t)1 << 50, s));
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    T(cudaMemPoolCreate(&pool, &props));
    memset(&access, 0, sizeof access);
    access.location = props.location;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    T(cudaMemPoolSetAccess(pool, &access, 1));
    T(cudaMallocFromPoolAsync(&p, 6 * MIB, pool, s));
    T(cudaFreeAsync(p, s));
    T(cudaStreamSynchronize(s));
    T(cudaMemPoolTrimTo(pool, 0));
    T(cudaMemPoolDestroy(pool));
    T(cudaMallocAsync(&p, 8 * MIB, s)); // stays
}

static void host(void) {
    static char buffer[MIB] __attribute__((aligned(4096)));
    void *p = NULL, *q = NULL;
    T(cudaHostAlloc(&p, 3 * MIB, cudaHostAllocDefault));
    T(cudaMallocHost(&q, 2 * MIB));
    T(cudaFreeHost(p));
    T(cudaFreeHost(q));
    T(cudaHostRegister(buffer, sizeof buffer, cudaHostRegisterDefault));
    T(cudaHostUnregister(buffer));
    T(cudaHostUnregister(buffer));
}

static void arrays(void) {
    struct cudaChannelFormatDesc d = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaArray_t a = NULL, b = NULL;
    cudaMipmappedArray_t m = NULL;
    T(cudaMallocArray(&a, &d, 64, 32, 0));
    T(cudaMalloc3DArray(&b, &d, EXTENT(16, 8, 4), 0));
    T(cudaMallocMipmappedArray(&m, &d, EXTENT(64, 64, 0), 3, 0));
    T(cudaFreeArray(a));
    T(cudaFreeMipmappedArray(m));
}

static void *in_thread(void *unused) {
    void *p[8];
    for (int r = 0; r < 20; r++) {
        for (int i = 0; i < 8; i++)
            if (cudaMalloc(&p[i], MIB + (size_t)i))
                p[i] = NULL;
        for (int i = 0; i < 8; i++)
            cudaFree(p[i]);
    }
    return unused;
}

static void threads(void) {
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, in_thread, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
}

static void entry(void) {
    enum cudaDriverEntryPointQueryResult status;
    void *p = NULL;
    unsigned long long at = 0;
    T(cudaFree(NULL));
    T(cudaGetDriverEntryPointByVersion("cuMemAlloc", &p, 12000, cudaEnableDefault, &status));
    if (p)
        T(((int (*)(unsigned long long *, size_t))p)(&at, 7 * MIB));
    p = NULL;
    T(cudaGetDriverEntryPointByVersion("cuMemAlloc", &p, 2000, cudaEnableDefault, &status));
    p = NULL;
    T(cudaGetDriverEntryPointByVersion("cuNothing", &p, 12000, cudaEnableDefault, &status));
    printf("%d\n", p == NULL);
#if CUDART_VERSION < 13000
    p = NULL;
    T(cudaGetDriverEntryPoint("cuMemFree", &p, cudaEnableDefault, &status));
    if (p)
        T(((int (*)(unsigned long long))p)(at));
#endif
}

static void reset(void) {
    void *p = NULL;
    T(cudaMalloc(&p, 9 * MIB));
    T(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * MIB));
    T(cudaDeviceReset());
    T(cudaMalloc(&p, 4 * MIB));
}

static void two_devices(void) {
    void *p = NULL;
    T(cudaSetDevice(1));
    T(cudaMalloc(&p, 11 * MIB));
    T(cudaSetDevice(0));
    T(cudaMalloc(&p, 12 * MIB));
}

// A copied error stays until it is asked for; nothing of ours may ask for it.
static void errors(void) {
    void *p = NULL;
    T(cudaMalloc(&p, (size_t)1 << 50));
    T(cudaPeekAtLastError());
    T(cudaGetLastError());
    T(cudaGetLastError());
    T(cudaMalloc(&p, MIB));
    T(cudaGetLastError());
}

// What nvcc generates for a kernel. (It registers before main; for the others here that is too
// early.)
void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, void *tid, void *bid,
                            void *bDim, void *gDim, int *wSize);

// Memory beside the work: streams, events, graphs, code.
static void code(void) {
    static int image[6] = {0x466243b1, 1}; // as a fat binary begins
    static char kernel, name[] = "kernel";
    cudaStream_t s = NULL;
    cudaEvent_t e = NULL;
    cudaGraph_t g = NULL;
    cudaGraphExec_t x = NULL;
    void **binary = __cudaRegisterFatBinary(image);
    __cudaRegisterFunction(binary, &kernel, name, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(binary);
    T(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    T(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    T(cudaGraphCreate(&g, 0));
    T(cudaGraphInstantiateWithFlags(&x, g, 0));
    T(cudaGraphLaunch(x, NULL));
    T(cudaLaunchKernel(&kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
    T(cudaLaunchKernel(&kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"device", device},   {"async", async}, {"host", host},   {"arrays", arrays},
        {"threads", threads}, {"entry", entry}, {"reset", reset}, {"two_devices", two_devices},
        {"errors", errors},   {"code", code}};
    for (int a = 1; a < argc; a++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (!strcmp(argv[a], parts[i].name))
                parts[i].run();
    return 0;
}

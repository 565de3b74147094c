// SPDX-License-Identifier: Apache-2.0
// Allocates and frees on the simulated driver, and prints the processor time of a call:
// cupti symbol|hidden|empty PAIRS. symbol: as linked, where the wrappers are in the way; hidden:
// through the driver's symbol table, which no wrapper sees; empty: the same with a subscriber of
// its own whose call-back does nothing, which is the price of libcupti alone.
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../lib/symbol_table.h"

static void CUPTIAPI call_back(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                               const void *cbdata) {
    (void)userdata;
    (void)domain;
    (void)cbid;
    (void)cbdata;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    CUcontext context;
    CUdeviceptr p;
    CUresult(CUDAAPI * alloc)(CUdeviceptr *, size_t) = cuMemAlloc;
    CUresult(CUDAAPI * release)(CUdeviceptr) = cuMemFree;
    if (argc != 3)
        return 2;
    const long pairs = atol(argv[2]);
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    (void)dlsym(driver, "cuMemAlloc_v2"); // cutrace starts
    if (strcmp(argv[1], "symbol")) {
        *(void **)&alloc = find_in_symbol_table(driver, "cuMemAlloc_v2");
        *(void **)&release = find_in_symbol_table(driver, "cuMemFree_v2");
    }
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    if (!strcmp(argv[1], "empty")) {
        CUpti_SubscriberHandle s;
        if (cuptiSubscribe(&s, call_back, NULL) ||
            cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API,
                                CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2) ||
            cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API,
                                CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2))
            return 1;
    }
    for (long i = 0; i < 1000; i++)
        if (alloc(&p, 1 << 20) || release(p))
            return 1;
    const double start = now_ns();
    for (long i = 0; i < pairs; i++)
        if (alloc(&p, 1 << 20) || release(p))
            return 1;
    printf("%.1f\n", (now_ns() - start) / (double)pairs / 2);
    return 0;
}

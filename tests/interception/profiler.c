// SPDX-License-Identifier: Apache-2.0
// A program with a profiler that uses CUPTI as kineto does: it subscribes once, late, and never
// tries again. profiler symbol|dlsym
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static unsigned enters, exits;

static void CUPTIAPI call_back(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                               const void *cbdata) {
    const CUpti_CallbackData *data = cbdata;
    (void)userdata;
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid != CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2)
        return;
    if (data->callbackSite == CUPTI_API_ENTER)
        enters++;
    else
        exits++;
}

typedef CUptiResult(CUPTIAPI *subscribe_fn)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);

static int allocate(int n) {
    int bad = 0;
    for (int i = 0; i < n; i++) {
        CUdeviceptr p = 0;
        bad |= cuMemAlloc(&p, (size_t)(i + 1) << 20) || cuMemFree(p);
    }
    return bad;
}

int main(int argc, char **argv) {
    CUcontext context;
    CUpti_SubscriberHandle subscriber;
    subscribe_fn subscribe = cuptiSubscribe;
    if (argc > 1 && !strcmp(argv[1], "dlsym"))
        *(void **)&subscribe = dlsym(dlopen("libcupti.so.13", RTLD_NOW), "cuptiSubscribe");
    int bad = cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);
    bad |= allocate(3);
    const CUptiResult r = subscribe(&subscriber, call_back, NULL);
    printf("subscribe %d\n", (int)r);
    if (r == CUPTI_SUCCESS)
        bad |= cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS;
    bad |= allocate(5);
    if (r == CUPTI_SUCCESS)
        bad |= cuptiUnsubscribe(subscriber) != CUPTI_SUCCESS;
    bad |= allocate(2);
    printf("profiled %u %u\n", enters, exits);
    return bad;
}

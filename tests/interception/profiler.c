// SPDX-License-Identifier: Apache-2.0
// A program with a profiler that uses CUPTI as kineto does: it subscribes once, late, and never
// tries again. profiler symbol|dlsym
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
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

static unsigned allocations, releases;

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 16384;
    *buffer = malloc(*size);
    *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid) {
    CUpti_Activity *record = NULL;
    (void)context;
    (void)stream;
    (void)size;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        const CUpti_ActivityMemory4 *m = (const CUpti_ActivityMemory4 *)record;
        if (record->kind != CUPTI_ACTIVITY_KIND_MEMORY2)
            continue;
        if (m->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION)
            allocations++;
        else
            releases++;
    }
    free(buffer);
}

static int enable(CUpti_SubscriberHandle subscriber) {
    return cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) ||
           cuptiActivityRegisterCallbacks(give_buffer, take_buffer) ||
           cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2);
}

static int disable(CUpti_SubscriberHandle subscriber) {
    return cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2) || cuptiActivityFlushAll(1) ||
           cuptiUnsubscribe(subscriber);
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
        bad |= enable(subscriber);
    bad |= allocate(5);
    if (r == CUPTI_SUCCESS)
        bad |= disable(subscriber);
    bad |= allocate(2);
    printf("profiled %u %u\nrecords %u %u\n", enters, exits, allocations, releases);
    return bad;
}

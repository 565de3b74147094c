// SPDX-License-Identifier: Apache-2.0
// Another tool for CUDA_INJECTION64_PATH: says on stderr that it was called. With WAYS_SUBSCRIBE it
// takes the subscription at CUPTI, as profilers do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void calls_back(void *userdata, int domain, unsigned cbid, const void *data) {
    (void)userdata, (void)domain, (void)cbid, (void)data;
}

int InitializeInjection(void);
int InitializeInjection(void) {
    void *const cupti = getenv("WAYS_SUBSCRIBE") ? dlopen("libcupti.so.13", RTLD_NOW) : NULL;
    int (*subscribe)(void **, void (*)(void *, int, unsigned, const void *), void *) = NULL;
    void *subscriber;
    if (cupti)
        *(void **)&subscribe = dlsym(cupti, "cuptiSubscribe");
    fprintf(stderr, "tool: called\n");
    if (subscribe)
        fprintf(stderr, "tool: subscribe %d\n", subscribe(&subscriber, calls_back, NULL));
    return 1;
}

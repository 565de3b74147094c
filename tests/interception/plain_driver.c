// SPDX-License-Identifier: Apache-2.0
// A driver of a few functions without a lock, which a signal handler may call and may leave by
// siglongjmp. It counts its calls.
#include <stdatomic.h>
#include <stddef.h>

_Atomic unsigned long driver_calls;
static _Atomic unsigned long long next = 0x7000000000;
static int context;

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    return (int)flags;
}
int cuDevicePrimaryCtxRetain(void **p, int device);
int cuDevicePrimaryCtxRetain(void **p, int device) {
    *p = &context;
    return device;
}
int cuCtxSetCurrent(void *p);
int cuCtxSetCurrent(void *p) {
    return p != &context;
}
int cuCtxGetCurrent(void **p);
int cuCtxGetCurrent(void **p) {
    *p = &context;
    return 0;
}
int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device) {
    return *device = 0;
}
int cuMemAlloc_v2(unsigned long long *p, size_t bytes);
int cuMemAlloc_v2(unsigned long long *p, size_t bytes) {
    *p = atomic_fetch_add(&next, bytes);
    atomic_fetch_add(&driver_calls, 1);
    return 0;
}
int cuMemFree_v2(unsigned long long p);
int cuMemFree_v2(unsigned long long p) {
    atomic_fetch_add(&driver_calls, 1);
    return p == 0;
}

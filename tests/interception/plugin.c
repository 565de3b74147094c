// SPDX-License-Identifier: Apache-2.0
// A plugin of its own copy of the runtime: allocates and frees through it, or only counts devices.
#include <stddef.h>

int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaGetDeviceCount(int *);

int plugin_run(size_t bytes);
int plugin_run(size_t bytes) {
    void *p = NULL, *q = NULL;
    int r = cudaMalloc(&p, bytes) | cudaMalloc(&q, bytes + 1);
    return r | cudaFree(p);
}

int plugin_count(size_t unused);
int plugin_count(size_t unused) {
    int n = 0;
    (void)unused;
    return cudaGetDeviceCount(&n);
}

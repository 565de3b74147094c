// SPDX-License-Identifier: Apache-2.0
// Fetches functions of the runtime by dlsym, which is not interposed for them.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

int main(void) {
    void *p = NULL, *h = dlopen("libcudart.so.13", RTLD_NOW);
    int (*take)(void **, size_t) = h ? (int (*)(void **, size_t))dlsym(h, "cudaMalloc") : NULL;
    int (*give)(void *) = h ? (int (*)(void *))dlsym(h, "cudaFree") : NULL;
    if (!take || !give)
        return 77;
    int r = take(&p, 3 << 20);
    r |= give(p);
    printf("%d\n", r);
    return r;
}

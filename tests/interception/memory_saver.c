// SPDX-License-Identifier: Apache-2.0
// A program under torch_memory_saver: allocates by cudaMalloc, sleeps, wakes up.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int cudaMalloc(void **, size_t);
int cudaFree(void *);

int main(void) {
    void *p[4] = {NULL}, *small = NULL;
    void (*pause)(void), (*resume)(void);
    int r = cudaFree(NULL);
    for (int i = 0; i < 4; i++)
        r |= cudaMalloc(&p[i], (size_t)(i + 2) << 20);
    r |= cudaMalloc(&small, 1000);
    pause = (void (*)(void))dlsym(RTLD_DEFAULT, "tms_pause");
    resume = (void (*)(void))dlsym(RTLD_DEFAULT, "tms_resume");
    if (!pause || !resume)
        return 1;
    pause();
    resume();
    r |= cudaFree(p[1]);
    r |= cudaFree(small);
    printf("%d\n", r);
    return r;
}

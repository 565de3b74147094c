// SPDX-License-Identifier: Apache-2.0
// An interposer behind us that calls the program back in the middle of a call, at one size.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void (*in_driver)(void);

int cuMemAlloc_v2(unsigned long long *p, size_t bytes);
int cuMemAlloc_v2(unsigned long long *p, size_t bytes) {
    int (*real)(unsigned long long *, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    if (bytes == 4242)
        in_driver();
    return real(p, bytes);
}

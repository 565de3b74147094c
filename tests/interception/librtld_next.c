// SPDX-License-Identifier: Apache-2.0
// A host's own interposer, of the C library and of the driver. dlsym(RTLD_NEXT) must find the
// symbol after this library, also if dlsym is libcutrace.so's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned calls;

static void *next(const char *name) {
    void *p = dlsym(RTLD_NEXT, name);
    Dl_info mine, found;
    if (!p || !dladdr((void *)next, &mine) || !dladdr(p, &found) ||
        mine.dli_fbase == found.dli_fbase) {
        fprintf(stderr, "next: %s leads back or nowhere\n", name);
        abort();
    }
    return p;
}

pid_t getppid(void);
pid_t getppid(void) {
    pid_t (*real)(void) = (pid_t(*)(void))next("getppid");
    return real();
}

int cuMemAlloc_v2(unsigned long long *p, size_t bytes);
int cuMemAlloc_v2(unsigned long long *p, size_t bytes) {
    static int (*real)(unsigned long long *, size_t);
    if (!real)
        real = (int (*)(unsigned long long *, size_t))next("cuMemAlloc_v2");
    calls++;
    return real(p, bytes);
}

int cuMemFree_v2(unsigned long long p);
int cuMemFree_v2(unsigned long long p) {
    // Asked anew at each call, as many do.
    int (*real)(unsigned long long) = (int (*)(unsigned long long))next("cuMemFree_v2");
    calls++;
    return real(p);
}

// A versioned look-up too.
__attribute__((destructor)) static void report(void) {
    void *p = dlvsym(RTLD_NEXT, "printf", "GLIBC_2.2.5");
    if (!getppid() || (!p && !dlsym(RTLD_NEXT, "printf")))
        abort();
    fprintf(stderr, "next: getppid 1, driver calls %u\n", calls);
}

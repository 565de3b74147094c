// SPDX-License-Identifier: Apache-2.0
// Opens the driver, allocates and closes it again, many times.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

typedef int call(void *, size_t);

static call *find(void *driver, const char *name) {
    return (call *)(uintptr_t)dlsym(driver, name);
}

static int use(void) {
    uint64_t p = 0;
    void *context = NULL, *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return 1;
    int bad = find(driver, "cuInit")(NULL, 0);
    bad |= find(driver, "cuDevicePrimaryCtxRetain")(&context, 0);
    bad |= find(driver, "cuCtxSetCurrent")(context, 0);
    for (int i = 0; i < 10; i++) {
        bad |= find(driver, "cuMemAlloc_v2")(&p, 4096);
        bad |= find(driver, "cuMemFree_v2")((void *)(uintptr_t)p, 0);
    }
    return bad | dlclose(driver);
}

int main(void) {
    int bad = 0;
    for (int i = 0; i < 20; i++)
        bad |= use();
    printf("%d\n", bad);
    return bad;
}

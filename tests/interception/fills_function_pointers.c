// SPDX-License-Identifier: Apache-2.0
// Fills the pointers that a loader library exports; must not write into a function instead.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW),
         *loader = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void **slot = loader ? dlsym(loader, "cuMemAlloc_v2") : NULL;
    Dl_info info;
    if (!driver || !slot || !dladdr(slot, &info))
        return 1;
    const char *slash = strrchr(info.dli_fname, '/');
    printf("%s %p\n", slash ? slash : info.dli_fname, *slot);
    *slot = dlsym(driver, "cuMemAlloc_v2");
    return *slot == NULL;
}

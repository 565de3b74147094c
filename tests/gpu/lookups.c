// SPDX-License-Identifier: Apache-2.0
// Asks the driver for every function of the hook table by dlsym and by cuGetProcAddress, and prints
// one JSON line for each: what it exports, whether both are the same address, and whose it is.
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *symbol, *base;
    int abi, ptsz;
} rows[] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) {#symbol, #base, abi, ptsz},
#include "../../preload/intercept/hooks.def"
};

typedef CUresult (*resolver1)(const char *, void **, int, cuuint64_t);
typedef CUresult (*resolver2)(const char *, void **, int, cuuint64_t, void *);

// The file that an address lies in, and the symbol there.
static void print_owner(const char *key, void *p) {
    Dl_info info;
    if (!p || !dladdr(p, &info)) {
        printf(",\"%s\":null", key);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    printf(",\"%s\":\"%s\",\"%s_name\":\"%s\"", key, slash ? slash + 1 : info.dli_fname, key,
           info.dli_sname ? info.dli_sname : "");
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int version = 0;
    if (!driver)
        return 77;
    resolver1 get1 = (resolver1)dlsym(driver, "cuGetProcAddress");
    resolver2 get2 = (resolver2)dlsym(driver, "cuGetProcAddress_v2");
    CUresult (*get_version)(int *) = (CUresult(*)(int *))dlsym(driver, "cuDriverGetVersion");
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    if (!get_version || get_version(&version) || !init || init(0))
        return 77;
    printf("{\"version\":%d,\"headers\":%d}\n", version, CUDA_VERSION);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const cuuint64_t flags = r->ptsz ? 2 : 0;
        void *exported = dlsym(driver, r->symbol), *p1 = NULL, *p2 = NULL;
        if (get1 && get1(r->base, &p1, r->abi, flags))
            p1 = NULL;
        if (get2 && get2(r->base, &p2, r->abi, flags, NULL))
            p2 = NULL;
        printf(
            "{\"symbol\":\"%s\",\"base\":\"%s\",\"abi\":%d,\"ptsz\":%d,\"exported\":%s,\"resolved\":%s,"
            "\"same\":%s,\"same1\":%s",
            r->symbol, r->base, r->abi, r->ptsz, exported ? "true" : "false", p2 ? "true" : "false",
            p2 == exported ? "true" : "false", !p1 || p1 == exported ? "true" : "false");
        print_owner("dlsym_in", exported);
        print_owner("resolved_in", p2);
        print_owner("resolved1_in", p1);
        printf("}\n");
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The ways in that a program can take without linking to the driver.
#define _GNU_SOURCE
#include "cu.h"

#include <dlfcn.h>

#include "../lib/symbol_table.h"

struct cu cu;

struct row {
    const char *symbol, *base;
    int abi, ptsz;
    void **slot;
};

static const struct row rows[] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    {#symbol, #base, abi, ptsz, (void **)&cu.symbol},
#include "../../preload/intercept/hooks.def"
};

typedef CUresult(CUDAAPI *resolver1)(const char *, void **, int, cuuint64_t);
typedef CUresult(CUDAAPI *resolver2)(const char *, void **, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult *);
typedef int (*entry_point)(const char *, void **, unsigned long long, int *);
typedef int (*entry_point_by)(const char *, void **, unsigned, unsigned long long, int *);

static void *driver, *runtime;
static resolver1 get1;
static resolver2 get2;
static entry_point entry;
static entry_point_by entry_by;

static void *by_handle(const struct row *r) {
    return dlsym(driver, r->symbol);
}

static void *by_default(const struct row *r) {
    return dlsym(RTLD_DEFAULT, r->symbol);
}

static void *by_symbol_table(const struct row *r) {
    return find_in_symbol_table(driver, r->symbol);
}

// Needs a driver whose symbols have a version; NVIDIA's have none today.
static void *by_version(const struct row *r) {
    return dlvsym(driver, r->symbol, "WAYS_1.0");
}

static cuuint64_t flags_of(const struct row *r) {
    return r->ptsz ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
}

static void *by_resolver1(const struct row *r) {
    void *p = NULL;
    return get1(r->base, &p, r->abi, flags_of(r)) ? NULL : p;
}

static void *by_resolver2(const struct row *r) {
    void *p = NULL;
    return get2(r->base, &p, r->abi, flags_of(r), NULL) ? NULL : p;
}

static void *by_entry_point_version(const struct row *r) {
    void *p = NULL;
    return entry_by(r->base, &p, (unsigned)r->abi, flags_of(r), NULL) ? NULL : p;
}

// Answers for the version of the runtime: the newest ABI only.
static void *by_entry_point(const struct row *r) {
    void *p = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].base, r->base) && rows[i].ptsz == r->ptsz && rows[i].abi > r->abi)
            return dlsym(driver, r->symbol);
    return entry(r->base, &p, flags_of(r), NULL) ? NULL : p;
}

static void need(const void *p, const char *what) {
    if (p)
        return;
    fprintf(stderr, "no %s\n", what);
    exit(77);
}

// Like the CUDA runtime: the resolver that dlsym finds is asked for itself, and its answer used.
static void chain_resolvers(void) {
    void *p = NULL;
    get2 = (resolver2)dlsym(driver, "cuGetProcAddress_v2");
    need((void *)get2, "cuGetProcAddress_v2");
    get2("cuGetProcAddress", &p, 11030, 0, NULL);
    need(p, "cuGetProcAddress 11030");
    get1 = (resolver1)p;
    p = NULL;
    get1("cuGetProcAddress", &p, 12000, 0);
    need(p, "cuGetProcAddress 12000");
    get2 = (resolver2)p;
}

static void fill(void *(*find)(const struct row *), const char *way) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(*rows[i].slot = find(&rows[i])) && getenv("WAYS_VERBOSE"))
            fprintf(stderr, "%s: no %s\n", way, rows[i].symbol);
#define PLAIN(symbol, params) *(void **)&cu.symbol = dlsym(driver, #symbol);
    WAYS_PLAIN(PLAIN)
    need((void *)cu.cuMemAlloc_v2, way);
}

void load(const char *way) {
    driver = dlopen("libcuda.so.1", RTLD_NOW | (strcmp(way, "default") ? RTLD_LOCAL : RTLD_GLOBAL));
    need(driver, "libcuda.so.1");
    if (!strcmp(way, "dlsym")) {
        fill(by_handle, way);
    } else if (!strcmp(way, "default")) {
        fill(by_default, way);
    } else if (!strcmp(way, "hidden")) {
        (void)dlsym(driver, "cuMemAlloc_v2"); // a look-up that the library sees: it starts
        fill(by_symbol_table, way);
    } else if (!strcmp(way, "dlvsym")) {
        fill(by_version, way);
    } else if (!strcmp(way, "getproc1")) {
        get1 = (resolver1)dlsym(driver, "cuGetProcAddress");
        need((void *)get1, "cuGetProcAddress");
        fill(by_resolver1, way);
    } else if (!strcmp(way, "getproc2")) {
        get2 = (resolver2)dlsym(driver, "cuGetProcAddress_v2");
        need((void *)get2, "cuGetProcAddress_v2");
        fill(by_resolver2, way);
    } else if (!strcmp(way, "chain1")) {
        chain_resolvers();
        fill(by_resolver1, way);
    } else if (!strcmp(way, "chain2")) {
        chain_resolvers();
        fill(by_resolver2, way);
    } else if (!strcmp(way, "entry") || !strcmp(way, "entry-version")) {
        // Bound by name, not by dlsym: a runtime function fetched by dlsym is not interposed.
        extern int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *)
            __attribute__((weak));
        extern int cudaGetDriverEntryPointByVersion(
            const char *, void **, unsigned, unsigned long long, int *) __attribute__((weak));
        (void)runtime;
        entry = cudaGetDriverEntryPoint;
        entry_by = cudaGetDriverEntryPointByVersion;
        need((void *)entry, "cudaGetDriverEntryPoint");
        need((void *)entry_by, "cudaGetDriverEntryPointByVersion");
        fill(way[5] ? by_entry_point_version : by_entry_point, way);
    } else {
        fprintf(stderr, "unknown way %s\n", way);
        exit(2);
    }
}

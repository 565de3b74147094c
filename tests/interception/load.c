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

static void *driver;
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

static void find_resolver1(void) {
    get1 = (resolver1)dlsym(driver, "cuGetProcAddress");
    need((void *)get1, "cuGetProcAddress");
}

static void find_resolver2(void) {
    get2 = (resolver2)dlsym(driver, "cuGetProcAddress_v2");
    need((void *)get2, "cuGetProcAddress_v2");
}

// Like the CUDA runtime: the resolver that dlsym finds is asked for itself, and its answer used.
static void chain_resolvers(void) {
    void *p = NULL;
    find_resolver2();
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
        *rows[i].slot = find(&rows[i]);
#define PLAIN(symbol, params) *(void **)&cu.symbol = dlsym(driver, #symbol);
    WAYS_PLAIN(PLAIN)
    need((void *)cu.cuMemAlloc_v2, way);
}

// A look-up that the library sees: it starts.
static void be_seen(void) {
    (void)dlsym(driver, "cuMemAlloc_v2");
}

// Bound by name, not by dlsym: a runtime function fetched by dlsym is not interposed.
static void find_entry_points(void) {
    extern int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *)
        __attribute__((weak));
    extern int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long,
                                                int *) __attribute__((weak));
    entry = cudaGetDriverEntryPoint;
    entry_by = cudaGetDriverEntryPointByVersion;
    need((void *)entry, "cudaGetDriverEntryPoint");
    need((void *)entry_by, "cudaGetDriverEntryPointByVersion");
}

static const struct {
    const char *name;
    void *(*find)(const struct row *);
    void (*prepare)(void);
} ways[] = {
    {"dlsym", by_handle, NULL},
    {"default", by_default, NULL},
    {"hidden", by_symbol_table, be_seen},
    {"dlvsym", by_version, NULL},
    {"getproc1", by_resolver1, find_resolver1},
    {"getproc2", by_resolver2, find_resolver2},
    {"chain1", by_resolver1, chain_resolvers},
    {"chain2", by_resolver2, chain_resolvers},
    {"entry", by_entry_point, find_entry_points},
    {"entry-version", by_entry_point_version, find_entry_points},
};

void load(const char *way) {
    driver = dlopen("libcuda.so.1", RTLD_NOW | (strcmp(way, "default") ? RTLD_LOCAL : RTLD_GLOBAL));
    need(driver, "libcuda.so.1");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(way, ways[i].name) != 0)
            continue;
        if (ways[i].prepare)
            ways[i].prepare();
        fill(ways[i].find, way);
        return;
    }
    fprintf(stderr, "unknown way %s\n", way);
    exit(2);
}

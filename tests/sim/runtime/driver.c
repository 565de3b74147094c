// SPDX-License-Identifier: Apache-2.0
// How the stand-in runtime reaches the driver: dlopen, one dlsym, and the recorded look-ups, from
// ("cuGetProcAddress", 12000) on through the pointer that this look-up returned.
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void *simrt_entry[SIMRT_LOOKUPS];

static cudaError_t start_result;
static PFN_cuGetProcAddress_v12000 resolver;

static const struct {
    const char *name;
    int version;
    cuuint64_t flags;
} lookups[] = {
#define SIMRT_LOOKUP(name, version, flags) {#name, version, flags},
#include "lookups.def"
#undef SIMRT_LOOKUP
};

// SIMRT_HIDDEN=1: the driver's symbol table is read directly, so that no interposer of dlsym sees
// what this runtime does with the driver.
static void *read_symbol(void *library, const char *name) {
    struct link_map *map = library;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
        else if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
    }
    if (!symbols || !strings)
        return NULL;
    // The string table follows the symbol table in what the linkers write.
    for (const ElfW(Sym) *s = symbols; (const char *)s < strings; s++)
        if (s->st_shndx != SHN_UNDEF && strcmp(strings + s->st_name, name) == 0)
            return (void *)(map->l_addr + s->st_value);
    return NULL;
}

static bool hidden(void) {
    const char *value = getenv("SIMRT_HIDDEN");
    return value && *value && *value != '0';
}

static bool look_up(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return false;
    void *p = hidden() ? read_symbol(library, "cuGetProcAddress_v2")
                       : dlsym(library, "cuGetProcAddress_v2");
    resolver = (PFN_cuGetProcAddress_v12000)p;
    if (!resolver)
        return false;
    for (int i = 0; i < SIMRT_LOOKUPS; i++) {
        resolver(lookups[i].name, &simrt_entry[i], lookups[i].version, lookups[i].flags, NULL);
        if (i == SIMRT_AT_cuGetProcAddress_12000_0 && simrt_entry[i])
            resolver = (PFN_cuGetProcAddress_v12000)simrt_entry[i];
    }
    return true;
}

static void start(void) {
    int version = 0, devices = 0;
    start_result = cudaErrorInsufficientDriver;
    if (!look_up() || CALL(cuDriverGetVersion, 2020, &version) ||
        version < CUDART_VERSION / 1000 * 1000)
        return;
    CUresult result = CALL(cuInit, 2000, 0);
    if (!result)
        result = CALL(cuDeviceGetCount, 2000, &devices);
    if (!result && devices == 0)
        result = CUDA_ERROR_NO_DEVICE;
    start_result = (cudaError_t)result;
}

cudaError_t simrt_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return start_result;
}

CUresult simrt_resolve(const char *symbol, void **function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *status) {
    return resolver(symbol, function, version, flags, status);
}

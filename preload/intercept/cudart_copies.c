// SPDX-License-Identifier: Apache-2.0
// Finds the real function of a runtime call by its call site, and remembers it.
#define _GNU_SOURCE
#include "intercept/cudart_copies.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/real_dlsym.h"
#include "intercept/cuda_api.h"
#include "intercept/own_image.h"
#include "record/tracing.h"
#include "write/info_table.h"

#define COPIES 16
static struct ct_cudart_copy copies[COPIES];

// A copy that is found here is kept open (dlopen), so that its address stays its own. When the
// table is full, all further copies share the last entry.
static struct ct_cudart_copy *find_copy(uintptr_t base) {
    for (int i = 0; i < COPIES; i++) {
        uintptr_t empty = 0;
        if (atomic_load(&copies[i].base) == base ||
            atomic_compare_exchange_strong(&copies[i].base, &empty, base) || empty == base)
            return &copies[i];
    }
    return &copies[COPIES - 1];
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_runtime(const char *path) {
    return path && strncmp(base_name(path), "libcudart.so", 12) == 0;
}

// ---- searching ------------------------------------------------------------------------------

static int visit_runtime(struct dl_phdr_info *info, size_t size, void *path) {
    (void)size;
    if (!is_runtime(info->dlpi_name))
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

// Searches every loaded object, also those of RTLD_LOCAL, for a runtime.
static void *search_objects(const char *symbol) {
    const char *path = NULL;
    if (!dl_iterate_phdr(visit_runtime, &path) || !path)
        return NULL;
    void *const handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    return handle ? ct_real_dlsym_get_libc()(handle, symbol) : NULL;
}

// Searches a module and its dependencies. The main program's search begins with this library, and
// finds nothing.
static void *search_dependencies(const Dl_info *module, const char *symbol) {
    void *const handle = dlopen(module->dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    void *const p = handle ? ct_real_dlsym_get_libc()(handle, symbol) : NULL;
    return p && !ct_own_image_has(p) ? p : NULL;
}

// In this order: an interposer behind this library in the global scope, the caller's own
// dependency, the runtime of the global scope, any runtime that is loaded.
static void *search(const char *symbol, const void *caller) {
    Dl_info module, next_module;
    void *const next = ct_real_dlsym_get_libc()(RTLD_NEXT, symbol);
    if (next && dladdr(next, &next_module) && !is_runtime(next_module.dli_fname))
        return next;
    if (dladdr(caller, &module) && module.dli_fname) {
        void *const own = search_dependencies(&module, symbol);
        if (own)
            return own;
    }
    return next ? next : search_objects(symbol);
}

// cudaRuntimeGetVersion returns a constant; it does not initialize the runtime.
static void publish_version(const char *path) {
    void *handle = is_runtime(path) ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    void *address = handle ? ct_real_dlsym_get_libc()(handle, "cudaRuntimeGetVersion") : NULL;
    cudaError_t(CUDARTAPI * get_version)(int *) = (cudaError_t(CUDARTAPI *)(int *))address;
    char key[96];
    int version;
    if (!get_version || get_version(&version) != cudaSuccess)
        return;
    snprintf(key, sizeof key, "cuda.runtime.%s", base_name(path));
    ct_info_set(key, "%d", version);
}

static void *search_with_copy(const char *symbol, const void *caller,
                              struct ct_cudart_copy **copy) {
    Dl_info module;
    void *const real = search(symbol, caller);
    *copy = &copies[0];
    if (!real || !dladdr(real, &module))
        return real;
    *copy = find_copy((uintptr_t)module.dli_fbase);
    if (ct_tracing_is_on() && !atomic_exchange(&(*copy)->version_is_published, 1))
        publish_version(module.dli_fname);
    return real;
}

// ---- answers by call site -------------------------------------------------------------------

// A return address belongs to one function name and one module. Entries are written once, and never
// removed. When the table is full, each call searches.
#define SITES 1024
#define PROBES 16
static struct site {
    _Atomic uintptr_t caller;
    _Atomic(void *) real;
    _Atomic(struct ct_cudart_copy *) copy;
} sites[SITES];

void *ct_cudart_copies_find(const char *symbol, const void *caller, struct ct_cudart_copy **copy) {
    const uintptr_t key = (uintptr_t)caller;
    for (size_t i = 0; i < PROBES; i++) {
        struct site *const s = &sites[(key / 4 + i) % SITES];
        uintptr_t site_caller = atomic_load_explicit(&s->caller, memory_order_acquire);
        if (site_caller == key && (*copy = atomic_load(&s->copy)))
            return atomic_load(&s->real);
        if (site_caller == 0) {
            void *const real = search_with_copy(symbol, caller, copy);
            if (real && atomic_compare_exchange_strong(&s->caller, &site_caller, key)) {
                // The copy is stored last: a reader that finds it finds `real`.
                atomic_store(&s->real, real);
                atomic_store(&s->copy, *copy);
            }
            return real;
        }
    }
    return search_with_copy(symbol, caller, copy);
}

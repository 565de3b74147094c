// SPDX-License-Identifier: Apache-2.0
// The memory of a small model server: weights, a key/value cache, workspaces, requests that come
// and go, and a cache of prefixes that only grows, until the device is out of memory.
//
// It reaches the driver by dlopen and dlsym, to run on a GPU and on the simulated driver alike.
// Sizes follow from the free memory at the start. Exit status 3: out of memory, as intended.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef unsigned long long device_ptr;

static struct {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*mem_get_info)(size_t *, size_t *);
    int (*mem_alloc)(device_ptr *, size_t);
    int (*mem_free)(device_ptr);
} cu;

#define LAYERS 32
#define SLOTS 8

static void need(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "demo: %s\n", what);
    exit(1);
}

static void load_driver(void) {
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    need(h != NULL, "there is no libcuda.so.1");
    *(void **)&cu.init = dlsym(h, "cuInit");
    *(void **)&cu.retain = dlsym(h, "cuDevicePrimaryCtxRetain");
    *(void **)&cu.set_current = dlsym(h, "cuCtxSetCurrent");
    *(void **)&cu.mem_get_info = dlsym(h, "cuMemGetInfo_v2");
    *(void **)&cu.mem_alloc = dlsym(h, "cuMemAlloc_v2");
    *(void **)&cu.mem_free = dlsym(h, "cuMemFree_v2");
    void *context;
    need(cu.init(0) == 0 && cu.retain(&context, 0) == 0 && cu.set_current(context) == 0,
         "the device cannot be used");
}

// Not inlined, so that the call stacks in the trace have the names of the source.
#define STAGE __attribute__((noinline)) static

static inline __attribute__((always_inline)) device_ptr allocate(size_t bytes) {
    device_ptr p = 0;
    return cu.mem_alloc(&p, bytes) == 0 ? p : 0;
}

STAGE void load_weights(size_t bytes) {
    for (int layer = 0; layer < LAYERS; layer++)
        need(allocate(bytes / LAYERS) != 0, "no room for the weights");
}

STAGE void allocate_kv_cache(size_t bytes) {
    for (int layer = 0; layer < LAYERS; layer++)
        need(allocate(bytes / LAYERS) != 0, "no room for the key/value cache");
}

STAGE void allocate_workspaces(size_t unit) {
    for (int slot = 0; slot < SLOTS; slot++)
        need(allocate(unit * (1 + (size_t)slot * 7 % 5)) != 0, "no room for the workspaces");
}

STAGE device_ptr allocate_logits(size_t bytes) {
    return allocate(bytes);
}

STAGE device_ptr remember_prefix(size_t unit) {
    return allocate(unit / 2);
}

// One request: logits until it is answered, and for each third one a prefix that stays.
STAGE int serve(int request, size_t unit) {
    const device_ptr logits = allocate_logits(unit / 64 * (1 + (size_t)request % 3));
    if (!logits)
        return 0;
    const int is_served = request % 3 != 0 || remember_prefix(unit) != 0;
    cu.mem_free(logits);
    return is_served;
}

int main(void) {
    size_t free_bytes = 0, total = 0;
    load_driver();
    need(cu.mem_get_info(&free_bytes, &total) == 0, "cuMemGetInfo fails");
    load_weights(free_bytes / 100 * 52);
    allocate_kv_cache(free_bytes / 100 * 25);
    allocate_workspaces(free_bytes / 256);
    int request = 0;
    while (serve(request, free_bytes / 256)) {
        request++;
        usleep(20000);
    }
    fprintf(stderr, "demo: out of device memory at request %d\n", request);
    return 3;
}

// SPDX-License-Identifier: Apache-2.0
// Looks like torch_memory_saver's preload: it serves cudaMalloc and cudaFree from virtual memory,
// which can be paused, and passes other calls on by RTLD_NEXT. It is linked to the driver.
#define _GNU_SOURCE
#include "cu.h"

#include <dlfcn.h>
#include <pthread.h>

typedef int malloc_fn(void **, size_t);
typedef int free_fn(void *);

struct block {
    CUdeviceptr va;
    size_t size;
    CUmemGenericAllocationHandle handle;
    struct block *next;
};
static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *next(const char *name) {
    void *p = dlsym(RTLD_NEXT, name);
    if (!p) {
        fprintf(stderr, "tms: no %s\n", name);
        exit(1); // as the original does
    }
    return p;
}

static int back(struct block *b) {
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUdevice device;
    memset(&prop, 0, sizeof prop);
    memset(&access, 0, sizeof access);
    if (cuCtxGetDevice(&device))
        return 1;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (cuMemCreate(&b->handle, b->size, &prop, 0))
        return 1;
    return cuMemMap(b->va, b->size, 0, b->handle, 0) || cuMemSetAccess(b->va, b->size, &access, 1);
}

int cudaMalloc(void **p, size_t bytes);
int cudaMalloc(void **p, size_t bytes) {
    if (bytes < 2 * MIB) // outside of its region
        return ((malloc_fn *)next("cudaMalloc"))(p, bytes);
    struct block *b = calloc(1, sizeof *b);
    b->size = (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    if (cuMemAddressReserve(&b->va, b->size, 0, 0, 0) || back(b)) {
        if (b->va)
            cuMemAddressFree(b->va, b->size);
        free(b);
        return 2; // cudaErrorMemoryAllocation
    }
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&lock);
    *p = (void *)(uintptr_t)b->va;
    return 0;
}

int cudaFree(void *p);
int cudaFree(void *p) {
    struct block *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct block **b = &blocks; *b; b = &(*b)->next)
        if ((*b)->va == (uintptr_t)p) {
            found = *b;
            *b = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!found)
        return ((free_fn *)next("cudaFree"))(p);
    const int r = cuMemUnmap(found->va, found->size) || cuMemRelease(found->handle) ||
                  cuMemAddressFree(found->va, found->size);
    free(found);
    return r;
}

// Sleep mode: memory goes, addresses stay.
void tms_pause(void);
void tms_pause(void) {
    for (struct block *b = blocks; b; b = b->next) {
        cuMemUnmap(b->va, b->size);
        cuMemRelease(b->handle);
    }
}

void tms_resume(void);
void tms_resume(void) {
    for (struct block *b = blocks; b; b = b->next)
        if (back(b))
            exit(1);
}

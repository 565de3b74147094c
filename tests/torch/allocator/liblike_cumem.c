// SPDX-License-Identifier: Apache-2.0
// An allocator for one of PyTorch's memory pools, like vLLM's cumem: it calls the driver itself,
// and its sleep frees the memory of live blocks while their addresses stay reserved.
#include <cuda.h>
#include <stddef.h>
#include <sys/types.h>

#define PIECES 64
#define GRANULE (2ul << 20)

static struct piece {
    CUdeviceptr at;
    size_t bytes;
    CUmemGenericAllocationHandle memory;
} pieces[PIECES];

void *like_cumem_alloc(ssize_t size, int device, CUstream stream);
void like_cumem_free(void *p, ssize_t size, int device, CUstream stream);
int like_cumem_sleep(void);
int like_cumem_wake(void);

static CUresult fill(struct piece *p) {
    const CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = what.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cuMemCreate(&p->memory, p->bytes, &what, 0);
    if (!result)
        result = cuMemMap(p->at, p->bytes, 0, p->memory, 0);
    return result ? result : cuMemSetAccess(p->at, p->bytes, &access, 1);
}

static CUresult empty(const struct piece *p) {
    CUresult result = cuMemUnmap(p->at, p->bytes);
    return result ? result : cuMemRelease(p->memory);
}

static struct piece *find(CUdeviceptr at) {
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].at == at)
            return &pieces[i];
    return NULL;
}

void *like_cumem_alloc(ssize_t size, int device, CUstream stream) {
    struct piece *p = find(0);
    (void)device, (void)stream;
    if (!p)
        return NULL;
    p->bytes = ((size_t)size + GRANULE - 1) / GRANULE * GRANULE;
    if (cuMemAddressReserve(&p->at, p->bytes, 0, 0, 0))
        return NULL;
    if (fill(p)) {
        cuMemAddressFree(p->at, p->bytes);
        p->at = 0;
    }
    return (void *)p->at;
}

void like_cumem_free(void *ptr, ssize_t size, int device, CUstream stream) {
    struct piece *p = find((CUdeviceptr)ptr);
    (void)size, (void)device, (void)stream;
    if (!p)
        return;
    empty(p);
    cuMemAddressFree(p->at, p->bytes);
    p->at = 0;
}

int like_cumem_sleep(void) {
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < PIECES && !result; i++)
        if (pieces[i].at)
            result = empty(&pieces[i]);
    return (int)result;
}

int like_cumem_wake(void) {
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < PIECES && !result; i++)
        if (pieces[i].at)
            result = fill(&pieces[i]);
    return (int)result;
}

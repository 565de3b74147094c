// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: allocated, which is real memory, or registered, which is the program's.
#include "sim.h"

#include <sys/mman.h>

static const unsigned alloc_flags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

// A program may unmap what it has registered; the kernel then uses the addresses again.
static void forget_stale(uint64_t base, uint64_t size) {
    struct sim_range *r;
    while ((r = sim_range_overlap(base, size)) && r->kind == SIM_RANGE_REGISTERED)
        sim_range_delete(r);
}

static CUresult allocate(struct sim_call *c, void **out, size_t bytes, unsigned flags) {
    CUresult result = sim_capture_unsafe();
    if (result)
        return result;
    if (!out || !bytes || flags & ~alloc_flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > 1ull << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t space = sim_round_up(bytes, 4096);
    // Like device memory it costs nothing until it is touched, so the machine need not have it.
    void *p = mmap(NULL, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    forget_stale((uint64_t)(uintptr_t)p, space);
    struct sim_range *r = sim_range_new(SIM_RANGE_HOST, (uint64_t)(uintptr_t)p, bytes);
    r->space = space;
    r->ctx = sim_owner(c->ctx);
    r->flags = flags;
    *out = p;
    sim_set_ptr(c, r->base);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
    SIM_BEGIN("alloc", CONTEXT);
    sim_set_bytes(&c, bytesize);
    if (!c.result)
        c.result = allocate(&c, pp, bytesize, Flags);
    return sim_end(&c);
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytesize) {
    SIM_BEGIN("alloc", CONTEXT);
    sim_set_bytes(&c, bytesize);
    if (!c.result)
        c.result = allocate(&c, pp, bytesize, 0);
    return sim_end(&c);
}

static void release(struct sim_range *r) {
    munmap((void *)(uintptr_t)r->base, r->space);
    sim_range_delete(r);
}

CUresult CUDAAPI cuMemFreeHost(void *p) {
    SIM_BEGIN("free", CONTEXT);
    uint64_t address = (uint64_t)(uintptr_t)p;
    struct sim_range *r = sim_range_at(address);
    sim_set_ptr(&c, address);
    if (!c.result)
        c.result = sim_capture_unsafe();
    SIM_REFUSE_IF(&c, p && (!r || r->kind != SIM_RANGE_HOST || r->base != address),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result && p)
        release(r);
    return sim_end(&c);
}

void sim_host_end_context(struct sim_context *ctx) {
    for (struct sim_range *r = sim_ranges, *next; r; r = next) {
        next = r->next;
        if (r->ctx != ctx)
            continue;
        if (r->kind == SIM_RANGE_HOST)
            release(r);
        else if (r->kind == SIM_RANGE_REGISTERED)
            sim_range_delete(r);
    }
}

static CUresult register_range(const char *api, void *p, size_t bytes, unsigned flags) {
    SIM_BEGIN_AS(api, "register", CONTEXT);
    uint64_t base = (uint64_t)(uintptr_t)p;
    sim_set_ptr(&c, base);
    sim_set_bytes(&c, bytes);
    SIM_REFUSE_IF(&c,
                  !p || !bytes || bytes > UINT64_MAX - base || flags > 0xf ||
                      sim_space_touches(base, bytes),
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, sim_range_overlap(base, bytes), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    if (!c.result) {
        struct sim_range *r = sim_range_new(SIM_RANGE_REGISTERED, base, bytes);
        r->ctx = sim_owner(c.ctx);
        r->flags = flags;
    }
    return sim_end(&c);
}

SIM_FORWARD(cuMemHostRegister, (void *p, size_t bytesize, unsigned int Flags), register_range, p,
            bytesize, Flags)
SIM_FORWARD(cuMemHostRegister_v2, (void *p, size_t bytesize, unsigned int Flags), register_range, p,
            bytesize, Flags)

CUresult CUDAAPI cuMemHostUnregister(void *p) {
    SIM_BEGIN("unregister", CONTEXT);
    uint64_t base = (uint64_t)(uintptr_t)p;
    struct sim_range *r = sim_range_at(base);
    sim_set_ptr(&c, base);
    SIM_REFUSE_IF(&c, !r || r->kind != SIM_RANGE_REGISTERED || r->base != base,
                  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (!c.result)
        sim_range_delete(r);
    return sim_end(&c);
}

static struct sim_range *find(const void *p) {
    struct sim_range *r = sim_range_at((uint64_t)(uintptr_t)p);
    return r && (r->kind == SIM_RANGE_HOST || r->kind == SIM_RANGE_REGISTERED) ? r : NULL;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !pdptr || Flags || !find(p), CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *pdptr = (CUdeviceptr)(uintptr_t)p; // unified addressing
    return sim_end(&c);
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p) {
    SIM_BEGIN(NULL, CONTEXT);
    struct sim_range *r = find(p);
    SIM_REFUSE_IF(&c, !pFlags || !r, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *pFlags = r->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return sim_end(&c);
}

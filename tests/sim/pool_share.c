// SPDX-License-Identifier: Apache-2.0
// Sharing a pool: its descriptor, and the pointers into it that another process opens.
#include "pool.h"
#include "vmm.h"

#include <string.h>

struct content { // of a CUmemPoolPtrExportData
    char magic[8];
    uint64_t key;
};

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool handle,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags) {
    SIM_BEGIN("export", INIT);
    struct sim_pool *pool = sim_pool_find(handle);
    uint64_t key;
    sim_set_pool(&c, handle);
    if (pool)
        sim_set_device(&c, pool->o.device);
    SIM_REFUSE_IF(&c,
                  !handle_out || !pool || flags || !(pool->props.handleTypes & handleType) ||
                      handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        int fd = sim_fd_give(&pool->descriptors, &key);
        *(int *)handle_out = fd;
        c.result = fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
    }
    if (!c.result)
        sim_export_new(key, 0, pool->o.device);
    return sim_end(&c);
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                                    CUmemAllocationHandleType handleType,
                                                    unsigned long long flags) {
    SIM_BEGIN("import", INIT);
    struct sim_export found;
    SIM_REFUSE_IF(&c, !pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_export_find(sim_fd_key((int)(intptr_t)handle), &found),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = found.device;
        struct sim_pool *pool = sim_pool_new(&props, found.device);
        pool->imported = true;
        *pool_out = (CUmemoryPool)pool;
        sim_set_pool(&c, pool);
        sim_set_device(&c, found.device);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
    SIM_BEGIN("export", INIT);
    struct sim_range *r = sim_range_at(ptr);
    sim_set_ptr(&c, ptr);
    SIM_REFUSE_IF(&c, !shareData_out || !r || r->kind != SIM_RANGE_POOL || r->base != ptr,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        if (!r->export_key)
            r->export_key = sim_export_new(0, r->size, r->device);
        struct content content = {"SIMPOOL", r->export_key};
        memset(shareData_out, 0, sizeof *shareData_out);
        memcpy(shareData_out, &content, sizeof content);
        sim_set_device(&c, r->device);
    }
    return sim_end(&c);
}

static CUresult import_pointer(struct sim_call *c, CUdeviceptr *out, struct sim_pool *pool,
                               const CUmemPoolPtrExportData *data) {
    struct sim_export found;
    struct content content;
    uint64_t base;
    memcpy(&content, data, sizeof content);
    if (memcmp(content.magic, "SIMPOOL", 8) != 0 || !sim_export_find(content.key, &found))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t space = sim_round_up(found.size, 2 << 20);
    if (!sim_space_take(space, 0, &base))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *r = sim_range_new(SIM_RANGE_POOL_IMPORT, base, found.size);
    r->space = space;
    r->device = found.device;
    r->pool = pool;
    *out = base;
    sim_set_ptr(c, base);
    sim_set_device(c, found.device);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool handle,
                                        CUmemPoolPtrExportData *shareData) {
    SIM_BEGIN("import", INIT);
    struct sim_pool *pool = sim_pool_find(handle);
    sim_set_pool(&c, handle);
    SIM_REFUSE_IF(&c, !ptr_out || !pool || !pool->imported || !shareData, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = import_pointer(&c, ptr_out, pool, shareData);
    return sim_end(&c);
}

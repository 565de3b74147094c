// SPDX-License-Identifier: Apache-2.0
// Legacy IPC: a handle that another process opens. Across processes it needs SIM_SHM.
#include "sim.h"

#include <string.h>
#include <unistd.h>

struct content { // of a CUipcMemHandle
    char magic[8];
    uint64_t key, base;
};

_Static_assert(sizeof(struct content) <= sizeof(CUipcMemHandle), "fits");

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    SIM_BEGIN("export", CONTEXT);
    struct sim_range *r = sim_range_at(dptr);
    sim_set_ptr(&c, dptr);
    if (r && r->device >= 0)
        sim_set_device(&c, r->device);
    SIM_REFUSE_IF(&c, !pHandle || !r || r->kind != SIM_RANGE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        if (!r->export_key)
            r->export_key = sim_export_new(0, r->size, r->device);
        struct content content = {"SIMIPC", r->export_key, r->base};
        memset(pHandle, 0, sizeof *pHandle);
        memcpy(pHandle, &content, sizeof content);
    }
    return sim_end(&c);
}

static struct sim_range *opened(uint64_t key, const struct sim_context *ctx) {
    for (struct sim_range *r = sim_ranges; r; r = r->next)
        if (r->kind == SIM_RANGE_IPC && r->export_key == key && r->ctx == ctx)
            return r;
    return NULL;
}

// The same handle opened twice in a context is the same address, with a count.
static CUresult open_handle(struct sim_call *c, CUdeviceptr *out, const struct content *content) {
    struct sim_export found;
    if (memcmp(content->magic, "SIMIPC", 7) != 0 || !sim_export_find(content->key, &found))
        return CUDA_ERROR_INVALID_VALUE;
    if (found.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_range *r = opened(content->key, sim_owner(c->ctx));
    if (!r) {
        uint64_t base, space = sim_round_up(found.size, 2 << 20);
        if (!sim_space_take(space, 0, &base))
            return CUDA_ERROR_MAP_FAILED;
        r = sim_range_new(SIM_RANGE_IPC, base, found.size);
        r->space = space;
        r->device = found.device;
        r->ctx = sim_owner(c->ctx);
        r->export_key = content->key;
    }
    r->references++;
    *out = r->base;
    sim_set_ptr(c, r->base);
    sim_set_device(c, r->device);
    return CUDA_SUCCESS;
}

static CUresult open_any(const char *api, CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
    struct sim_call c;
    struct content content;
    sim_begin(&c, api, "ipc-open", SIM_NEED_CONTEXT);
    memcpy(&content, &handle, sizeof content);
    SIM_REFUSE_IF(&c, !out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = open_handle(&c, out, &content);
    return sim_end(&c);
}

SIM_FORWARD(cuIpcOpenMemHandle, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
            open_any, pdptr, handle, Flags)
SIM_FORWARD(cuIpcOpenMemHandle_v2, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
            open_any, pdptr, handle, Flags)

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr) {
    SIM_BEGIN("ipc-close", CONTEXT);
    struct sim_range *r = sim_range_at(dptr);
    sim_set_ptr(&c, dptr);
    SIM_REFUSE_IF(&c, !r || r->kind != SIM_RANGE_IPC || r->base != dptr, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        sim_set_device(&c, r->device);
        if (--r->references == 0) {
            sim_space_give(r->base, r->space);
            sim_range_delete(r);
        }
    }
    return sim_end(&c);
}

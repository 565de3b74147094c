// SPDX-License-Identifier: Apache-2.0
// What an address is: cuPointerGetAttribute.
#include "sim.h"

#include <string.h>

static bool host_kind(const struct sim_range *r) {
    return r->kind == SIM_RANGE_HOST || r->kind == SIM_RANGE_REGISTERED;
}

struct what {
    const struct sim_range *range;
    int device; // -1: none
    CUdeviceptr address;
};

// A reservation counts only where something is mapped into it.
static bool look(CUdeviceptr p, struct what *w) {
    w->range = sim_range_at(p);
    w->address = p;
    if (!w->range || w->range->kind == SIM_RANGE_ARRAY)
        return false;
    w->device = w->range->device;
    return w->range->kind != SIM_RANGE_RESERVED || sim_vmm_mapped(p, 1, &w->device);
}

static CUresult answer(const struct what *w, CUpointer_attribute attribute, void *data) {
    const struct sim_range *r = w->range;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = (CUcontext)r->ctx;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host_kind(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = w->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host_kind(r) && r->kind != SIM_RANGE_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)w->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = r->serial;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = r->kind == SIM_RANGE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = w->device >= 0 ? w->device : r->ctx ? r->ctx->o.device : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = r->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = r->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)data = r->kind == SIM_RANGE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)r->pool;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    SIM_BEGIN(NULL, INIT);
    struct what w;
    SIM_REFUSE_IF(&c, !data || !look(ptr, &w), CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = answer(&w, attribute, data);
    return sim_end(&c);
}

// For an address that is not CUDA's this answers with zeros (cuda.h).
CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr ptr) {
    SIM_BEGIN(NULL, INIT);
    struct what w;
    SIM_REFUSE_IF(&c, !attributes || !data || !numAttributes, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        bool known = look(ptr, &w);
        for (unsigned i = 0; i < numAttributes; i++) {
            bool ordinal = attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
            if (known && answer(&w, attributes[i], data[i]) == CUDA_SUCCESS)
                continue;
            if (ordinal)
                *(int *)data[i] = -2;
            else if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                     attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
                memset(data[i], 0, sizeof(unsigned));
            else
                memset(data[i], 0, sizeof(void *));
        }
    }
    return sim_end(&c);
}

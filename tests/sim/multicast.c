// SPDX-License-Identifier: Apache-2.0
// Multicast objects: an overlay over memory of several devices. It has no memory of its own, but
// what is bound to it stays.
#include "vmm.h"

#include <stdlib.h>

struct sim_binding {
    uint64_t offset, size;
    int device;
    struct sim_physical *member;
    struct sim_binding *next;
};

static struct sim_physical *find(CUmemGenericAllocationHandle handle) {
    struct sim_physical *p = sim_physical_find(handle);
    return p && p->multicast ? p : NULL;
}

static void drop(struct sim_binding **link) {
    struct sim_binding *b = *link;
    *link = b->next;
    if (b->member) {
        b->member->mappings--;
        sim_physical_release(b->member);
    }
    free(b);
}

void sim_multicast_end(struct sim_physical *p) {
    while (p->bindings)
        drop(&p->bindings);
}

CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
                                   const CUmulticastObjectProp *prop) {
    SIM_BEGIN("create", INIT);
    if (prop)
        sim_set_bytes(&c, prop->size);
    SIM_REFUSE_IF(&c,
                  !mcHandle || !prop || !prop->size || prop->size % sim_param.granularity ||
                      !prop->numDevices || prop->flags,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        struct sim_physical *p = sim_object_new(sizeof *p, SIM_PHYSICAL, NULL, 0);
        p->size = prop->size;
        p->handles = 1;
        p->multicast = true;
        p->device_limit = prop->numDevices;
        p->props.requestedHandleTypes = (CUmemAllocationHandleType)prop->handleTypes;
        *mcHandle = (CUmemGenericAllocationHandle)(uintptr_t)p;
        sim_set_handle(&c, *mcHandle);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
    SIM_BEGIN("access", INIT);
    struct sim_physical *p = find(mcHandle);
    sim_set_handle(&c, mcHandle);
    SIM_REFUSE_IF(&c, !sim_device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    SIM_REFUSE_IF(&c,
                  !p || p->devices & (1u << dev) ||
                      (unsigned)__builtin_popcount(p->devices) >= p->device_limit,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        p->devices |= 1u << dev;
        sim_set_device(&c, dev);
    }
    return sim_end(&c);
}

static CUresult bind(struct sim_physical *p, uint64_t offset, uint64_t size,
                     struct sim_physical *member, int device) {
    if (!p || !size || offset % sim_param.granularity || size % sim_param.granularity ||
        offset > p->size || size > p->size - offset || !(p->devices & (1u << device)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_binding *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    *b = (struct sim_binding){offset, size, device, member, p->bindings};
    p->bindings = b;
    if (member)
        member->mappings++;
    return CUDA_SUCCESS;
}

static CUresult bind_memory(const char *api, CUmemGenericAllocationHandle mc, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size,
                            unsigned long long flags) {
    SIM_BEGIN_AS(api, "map", INIT);
    struct sim_physical *p = find(mc), *member = sim_physical_find(memory);
    sim_set_handle(&c, mc);
    sim_set_bytes(&c, size);
    sim_set_offset(&c, offset);
    SIM_REFUSE_IF(&c,
                  !member || member->multicast || flags || memory_offset > member->size ||
                      size > member->size - memory_offset,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        sim_set_device(&c, member->o.device);
        c.result = bind(p, offset, size, member, member->o.device);
    }
    return sim_end(&c);
}

static CUresult bind_address(const char *api, CUmemGenericAllocationHandle mc, size_t offset,
                             CUdeviceptr address, size_t size, unsigned long long flags) {
    SIM_BEGIN_AS(api, "map", INIT);
    struct sim_physical *member = sim_vmm_physical_at(address, size);
    struct sim_range *r = sim_range_at(address);
    sim_set_handle(&c, mc);
    sim_set_ptr(&c, address);
    sim_set_bytes(&c, size);
    sim_set_offset(&c, offset);
    bool plain = r && r->kind == SIM_RANGE_DEVICE && address + size <= r->base + r->size;
    SIM_REFUSE_IF(&c, (!member && !plain) || flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        int device = member ? member->o.device : r->device;
        sim_set_device(&c, device);
        c.result = bind(find(mc), offset, size, member, device);
    }
    return sim_end(&c);
}

SIM_FORWARD(cuMulticastBindMem,
            (CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
             CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
             unsigned long long flags),
            bind_memory, mcHandle, mcOffset, memHandle, memOffset, size, flags)
SIM_FORWARD(cuMulticastBindAddr,
            (CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
             size_t size, unsigned long long flags),
            bind_address, mcHandle, mcOffset, memptr, size, flags)

#if CUDA_VERSION >= 13010
SIM_FORWARD(cuMulticastBindMem_v2,
            (CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
             CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
             unsigned long long flags),
            bind_memory, mcHandle, mcOffset, memHandle, memOffset, size, flags)
SIM_FORWARD(cuMulticastBindAddr_v2,
            (CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
             CUdeviceptr memptr, size_t size, unsigned long long flags),
            bind_address, mcHandle, mcOffset, memptr, size, flags)
#endif

CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                   size_t mcOffset, size_t size) {
    SIM_BEGIN("unmap", INIT);
    struct sim_physical *p = find(mcHandle);
    sim_set_handle(&c, mcHandle);
    sim_set_bytes(&c, size);
    sim_set_offset(&c, mcOffset);
    if (sim_device_valid(dev))
        sim_set_device(&c, dev);
    struct sim_binding **link = p ? &p->bindings : NULL;
    while (link && *link &&
           ((*link)->device != dev || (*link)->offset != mcOffset || (*link)->size != size))
        link = &(*link)->next;
    SIM_REFUSE_IF(&c, !link || !*link, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        drop(link);
    return sim_end(&c);
}

CUresult CUDAAPI cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                           CUmulticastGranularity_flags option) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !granularity || !prop, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *granularity = sim_param.granularity;
    return sim_end(&c);
}

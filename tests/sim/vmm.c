// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: address reservations, physical memory with its references, mappings.
// Memory is given back when the last handle, mapping and exported descriptor are gone.
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mapping {
    uint64_t base, size, offset;
    CUmemAccess_flags access;
    struct sim_physical *physical;
    struct mapping *next; // sorted by address
};

static bool aligned(uint64_t n) {
    return n && n % sim_param.granularity == 0;
}

// ---- physical memory ----------------------------------------------------------------------------

struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle) {
    struct sim_physical *p = sim_object_find((void *)(uintptr_t)handle, SIM_PHYSICAL);
    return p && p->handles ? p : NULL;
}

void sim_physical_release(struct sim_physical *p) {
    if (p->handles || p->mappings || sim_fd_any_open(&p->exports))
        return;
    if (p->multicast)
        sim_multicast_end(p);
    if (p->charged)
        sim_discharge(p->o.device, p->size);
    struct sim_physical *source = p->source;
    sim_object_delete(p);
    if (source) {
        source->mappings--;
        sim_physical_release(source);
    }
}

static void collect(void *object) {
    struct sim_physical *p = object;
    if (!p->handles && !p->mappings)
        sim_physical_release(p);
}

void sim_vmm_collect(void) {
    sim_object_each(NULL, SIM_PHYSICAL, collect);
}

static CUresult check_props(const CUmemAllocationProp *prop) {
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_valid(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case 2: // HOST, HOST_NUMA, HOST_NUMA_CURRENT: not in the oldest headers
    case 3:
    case 4:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult create(struct sim_call *c, CUmemGenericAllocationHandle *handle, size_t size,
                       const CUmemAllocationProp *prop) {
    bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    int device = on_device ? prop->location.id : 0;
    if (!aligned(size))
        return CUDA_ERROR_INVALID_VALUE;
    sim_vmm_collect();
    if (on_device && !sim_charge(device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_physical *p = sim_object_new(sizeof *p, SIM_PHYSICAL, NULL, device);
    p->size = size;
    p->props = *prop;
    p->handles = 1;
    p->charged = on_device;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    sim_set_handle(c, *handle);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags) {
    SIM_BEGIN("create", INIT);
    sim_set_bytes(&c, size);
    SIM_REFUSE_IF(&c, !handle || !prop || flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = check_props(prop);
    if (prop && sim_device_valid(prop->location.id))
        sim_set_device(&c, prop->location.id);
    if (!c.result)
        c.result = create(&c, handle, size, prop);
    return sim_end(&c);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
    SIM_BEGIN("release", INIT);
    struct sim_physical *p = sim_physical_find(handle);
    sim_set_handle(&c, handle);
    if (p)
        sim_set_device(&c, p->o.device);
    SIM_REFUSE_IF(&c, !p, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        p->handles--;
        sim_physical_release(p);
    }
    return sim_end(&c);
}

// ---- address ranges -----------------------------------------------------------------------------

static CUresult reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr) {
    uint64_t base = addr;
    if (!ptr || !aligned(size) || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < sim_param.granularity)
        alignment = sim_param.granularity;
    if (size > 1ull << 40)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool at_hint = addr && addr % alignment == 0 && sim_space_take_at(addr, size);
    if (!at_hint && !sim_space_take(size, alignment, &base))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *r = sim_range_new(SIM_RANGE_RESERVED, base, size);
    r->space = size;
    *ptr = base;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                                     CUdeviceptr addr, unsigned long long flags) {
    SIM_BEGIN("reserve", INIT);
    sim_set_bytes(&c, size);
    SIM_REFUSE_IF(&c, flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = reserve(ptr, size, alignment, addr);
    if (!c.result)
        sim_set_ptr(&c, *ptr);
    return sim_end(&c);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    SIM_BEGIN("unreserve", INIT);
    sim_set_ptr(&c, ptr);
    sim_set_bytes(&c, size);
    struct sim_range *r = c.result ? NULL : sim_range_at(ptr);
    if (!c.result &&
        (!r || r->kind != SIM_RANGE_RESERVED || r->base != ptr || r->size != size || r->owner))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result) {
        sim_space_give(r->base, r->space);
        sim_range_delete(r);
    }
    return sim_end(&c);
}

// ---- mappings -----------------------------------------------------------------------------------

static struct sim_range *reservation(uint64_t base, uint64_t size) {
    struct sim_range *r = sim_range_at(base);
    if (!size || !r || r->kind != SIM_RANGE_RESERVED || size > r->size ||
        base - r->base > r->size - size)
        return NULL;
    return r;
}

// Where in the list a mapping of [base, base+size) would go; NULL if one is in the way.
static struct mapping **place(struct sim_range *r, uint64_t base, uint64_t size) {
    struct mapping **link = (struct mapping **)&r->owner;
    while (*link && (*link)->base + (*link)->size <= base)
        link = &(*link)->next;
    return *link && (*link)->base < base + size ? NULL : link;
}

// The first mapping of the reservation that ends above the address.
static struct mapping *mapping_from(struct sim_range *r, uint64_t base) {
    struct mapping *m = r->owner;
    while (m && m->base + m->size <= base)
        m = m->next;
    return m;
}

// True if the range is covered by mappings without a gap; whole: none sticks out of it.
static bool covered(struct sim_range *r, uint64_t base, uint64_t size, bool whole) {
    struct mapping *m = mapping_from(r, base);
    uint64_t at = base, end = base + size;
    if (whole && m && m->base != base)
        return false;
    for (; m && at < end; m = m->next) {
        if (m->base > at)
            return false;
        at = m->base + m->size;
    }
    return whole ? at == end : at >= end;
}

static CUresult map(uint64_t base, uint64_t size, uint64_t offset, struct sim_physical *p) {
    struct sim_range *r = reservation(base, size);
    if (!r || !p || !aligned(size) || base % sim_param.granularity ||
        offset % sim_param.granularity || offset > p->size || size > p->size - offset)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping **link = place(r, base, size);
    if (!link)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    *m = (struct mapping){base, size, offset, CU_MEM_ACCESS_FLAGS_PROT_NONE, p, *link};
    *link = m;
    p->mappings++;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
    SIM_BEGIN("map", INIT);
    struct sim_physical *p = sim_physical_find(handle);
    sim_set_ptr(&c, ptr);
    sim_set_bytes(&c, size);
    sim_set_handle(&c, handle);
    sim_set_offset(&c, offset);
    if (p)
        sim_set_device(&c, p->o.device);
    SIM_REFUSE_IF(&c, flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = map(ptr, size, offset, p);
    return sim_end(&c);
}

static void unmap(struct sim_range *r, uint64_t base, uint64_t size) {
    struct mapping **link = (struct mapping **)&r->owner;
    while (*link && (*link)->base < base)
        link = &(*link)->next;
    while (*link && (*link)->base < base + size) {
        struct mapping *m = *link;
        *link = m->next;
        m->physical->mappings--;
        sim_physical_release(m->physical);
        free(m);
    }
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
    SIM_BEGIN("unmap", INIT);
    sim_set_ptr(&c, ptr);
    sim_set_bytes(&c, size);
    struct sim_range *r = reservation(ptr, size);
    SIM_REFUSE_IF(&c, !r || !aligned(size) || !covered(r, ptr, size, true),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        sim_set_device(&c, mapping_from(r, ptr)->physical->o.device);
        unmap(r, ptr, size);
    }
    return sim_end(&c);
}

bool sim_vmm_mapped(uint64_t base, uint64_t size, int *device) {
    struct sim_range *r = reservation(base, size);
    if (!r || !covered(r, base, size, false))
        return false;
    *device = mapping_from(r, base)->physical->o.device;
    return true;
}

struct sim_physical *sim_vmm_physical_at(uint64_t base, uint64_t size) {
    struct sim_range *r = reservation(base, size);
    struct mapping *m = r ? mapping_from(r, base) : NULL;
    bool whole = m && m->base <= base && base + size <= m->base + m->size;
    return whole ? m->physical : NULL;
}

// ---- access -------------------------------------------------------------------------------------

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                                size_t count) {
    SIM_BEGIN("access", INIT);
    sim_set_ptr(&c, ptr);
    sim_set_bytes(&c, size);
    struct sim_range *r = reservation(ptr, size);
    SIM_REFUSE_IF(&c, !desc || !count || !size || !r || !covered(r, ptr, size, false),
                  CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; !c.result && i < count; i++)
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            !sim_device_valid(desc[i].location.id))
            c.result = CUDA_ERROR_INVALID_DEVICE;
    if (!c.result) {
        struct mapping *m = mapping_from(r, ptr);
        sim_set_device(&c, m->physical->o.device);
        for (; m && m->base < ptr + size; m = m->next)
            m->access = desc[0].flags;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                CUdeviceptr ptr) {
    SIM_BEGIN(NULL, INIT);
    struct sim_range *r = reservation(ptr, 1);
    struct mapping *m = r ? mapping_from(r, ptr) : NULL;
    SIM_REFUSE_IF(&c, !flags || !location || !m || m->base > ptr, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *flags = m->access;
    return sim_end(&c);
}

// ---- handles once more --------------------------------------------------------------------------

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    SIM_BEGIN("retain", INIT);
    uint64_t address = (uint64_t)(uintptr_t)addr;
    sim_set_ptr(&c, address);
    struct sim_physical *p = sim_vmm_physical_at(address, 1);
    SIM_REFUSE_IF(&c, !handle || !p, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        p->handles++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
        sim_set_handle(&c, *handle);
        sim_set_device(&c, p->o.device);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !granularity || !prop, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = check_props(prop);
    if (!c.result)
        *granularity = sim_param.granularity;
    return sim_end(&c);
}

// Whether a capture forbids it is not documented: here it does, which is the worse case.
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                        CUmemGenericAllocationHandle handle) {
    SIM_BEGIN(NULL, INIT);
    struct sim_physical *p = sim_physical_find(handle);
    if (!c.result)
        c.result = sim_capture_unsafe();
    SIM_REFUSE_IF(&c, !prop || !p || p->multicast, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *prop = p->props;
    return sim_end(&c);
}

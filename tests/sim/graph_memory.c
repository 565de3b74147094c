// SPDX-License-Identifier: Apache-2.0
// The memory that graphs own. An allocation node fixes an address; a launch takes memory from the
// device's graph memory, which keeps it until it is trimmed.
#include "graph.h"

#include <stdlib.h>

CUresult sim_graph_memory_cover(int device, uint64_t used) {
    struct sim_device *d = &sim_devices[device];
    if (used <= d->graph_reserved)
        return CUDA_SUCCESS;
    uint64_t more = sim_round_up(used - d->graph_reserved, sim_param.chunk);
    if (!sim_charge(device, more))
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->graph_reserved += more;
    if (d->graph_reserved > d->graph_reserved_high)
        d->graph_reserved_high = d->graph_reserved;
    return CUDA_SUCCESS;
}

void sim_graph_memory_use(struct sim_graph_memory *m) {
    struct sim_device *d = &sim_devices[m->device];
    m->range->in_use = true;
    d->graph_used += m->size;
    if (d->graph_used > d->graph_used_high)
        d->graph_used_high = d->graph_used;
}

static void trim(int device) {
    struct sim_device *d = &sim_devices[device];
    uint64_t keep = sim_round_up(d->graph_used, sim_param.chunk);
    if (d->graph_reserved > keep) {
        sim_discharge(device, d->graph_reserved - keep);
        d->graph_reserved = keep;
    }
}

void sim_graph_memory_drop(struct sim_graph_memory *m) {
    if (m->references || m->range->in_use)
        return;
    sim_space_give(m->range->base, m->range->space);
    sim_range_delete(m->range);
    free(m);
}

CUresult sim_graph_free(struct sim_range *r) {
    struct sim_graph_memory *m = r->owner;
    if (!r->in_use)
        return CUDA_ERROR_INVALID_VALUE;
    r->in_use = false;
    sim_devices[m->device].graph_used -= m->size;
    sim_graph_memory_drop(m);
    return CUDA_SUCCESS;
}

void sim_graph_reset_device(int device) {
    for (struct sim_range *r = sim_ranges, *next; r; r = next) {
        next = r->next;
        if (r->kind == SIM_RANGE_GRAPH && r->device == device && r->in_use)
            sim_graph_free(r);
    }
    trim(device);
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
    SIM_BEGIN("pool-trim", INIT);
    SIM_REFUSE_IF(&c, !sim_device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    if (sim_device_valid(device))
        sim_set_device(&c, device);
    if (!c.result)
        trim(device);
    return sim_end(&c);
}

static CUresult attribute(const char *api, CUdevice device, CUgraphMem_attribute attr, void *value,
                          bool set) {
    SIM_BEGIN_AS(api, NULL, INIT);
    SIM_REFUSE_IF(&c, !sim_device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    SIM_REFUSE_IF(&c, !value, CUDA_ERROR_INVALID_VALUE);
    if (c.result)
        return sim_end(&c);
    struct sim_device *d = &sim_devices[device];
    bool used =
        attr == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT || attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    bool high =
        attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    uint64_t *now = used ? &d->graph_used : &d->graph_reserved;
    uint64_t *most = used ? &d->graph_used_high : &d->graph_reserved_high;
    if ((unsigned)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH ||
        (set && (!high || *(cuuint64_t *)value != 0)))
        c.result = CUDA_ERROR_INVALID_VALUE;
    else if (set)
        *most = *now;
    else
        *(cuuint64_t *)value = high ? *most : *now;
    return sim_end(&c);
}

SIM_FORWARD(cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attr, void *value),
            attribute, device, attr, value, false)
SIM_FORWARD(cuDeviceSetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attr, void *value),
            attribute, device, attr, value, true)

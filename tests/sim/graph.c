// SPDX-License-Identifier: Apache-2.0
// Graphs and the memory that they own: an allocation node fixes an address when it is added; a
// launch takes memory from the device's graph memory, which keeps it until it is trimmed.
#include <stdlib.h>
#include <string.h>

#include "conditional.h"
#include "stream.h"

struct memory { // what one allocation node stands for
    struct sim_range *range;
    int device;
    uint64_t size;
    unsigned references; // by its graph and executables
};

struct sim_node {
    struct sim_object o;
    struct sim_graph *graph;
    CUgraphNodeType type;
    struct memory *memory;     // of an allocation node
    CUdeviceptr dptr;          // of an allocation or free node
    struct sim_bodies *bodies; // of a conditional node
    size_t bytes;
    struct sim_node *next;
};

struct sim_graph {
    struct sim_object o;
    struct sim_node *first, **last;
    unsigned executables;
    struct sim_held *held;
};

struct step { // what a launch does with memory, in the order of the nodes
    struct memory *alloc;
    CUdeviceptr release;
};

struct sim_exec {
    struct sim_object o;
    struct sim_graph *graph; // NULL once it is destroyed
    uint64_t charged;
    unsigned long long flags;
    struct step *steps;
    size_t count;
    struct sim_held *held;
};

// ---- the device's graph memory --------------------------------------------------------------------

static CUresult cover(int device, uint64_t used) {
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

static void use(struct memory *m) {
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

static void drop_if_unused(struct memory *m) {
    if (m->references || m->range->in_use)
        return;
    sim_space_give(m->range->base, m->range->space);
    sim_range_delete(m->range);
    free(m);
}

CUresult sim_graph_free(struct sim_range *r) {
    struct memory *m = r->owner;
    if (!r->in_use)
        return CUDA_ERROR_INVALID_VALUE;
    r->in_use = false;
    sim_devices[m->device].graph_used -= m->size;
    drop_if_unused(m);
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
    if (!c.result && !sim_device_valid(device))
        c.result = CUDA_ERROR_INVALID_DEVICE;
    if (sim_device_valid(device))
        sim_set_device(&c, device);
    if (!c.result)
        trim(device);
    return sim_end(&c);
}

static CUresult attribute(const char *api, CUdevice device, CUgraphMem_attribute attr, void *value,
                          bool set) {
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_INIT);
    if (!c.result && !sim_device_valid(device))
        c.result = CUDA_ERROR_INVALID_DEVICE;
    if (!c.result && !value)
        c.result = CUDA_ERROR_INVALID_VALUE;
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

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                              void *value) {
    return attribute(__func__, device, attr, value, false);
}

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                              void *value) {
    return attribute(__func__, device, attr, value, true);
}

// ---- graphs and nodes ---------------------------------------------------------------------------

struct sim_graph *sim_graph_new(struct sim_context *ctx) {
    struct sim_graph *g = sim_object_new(sizeof *g, SIM_GRAPH, NULL, ctx ? ctx->o.device : 0);
    g->last = &g->first;
    return g;
}

static struct sim_node *add(struct sim_graph *g, CUgraphNodeType type) {
    struct sim_node *n = sim_object_new(sizeof *n, SIM_NODE, NULL, g->o.device);
    n->graph = g;
    n->type = type;
    *g->last = n;
    g->last = &n->next;
    return n;
}

static void forget_node(struct sim_node *n) {
    if (n->memory) {
        n->memory->references--;
        drop_if_unused(n->memory);
    }
    sim_bodies_delete(n->bodies);
    sim_object_delete(n);
}

static struct sim_graph *ending;

static void orphan(void *object) {
    struct sim_exec *x = object;
    if (x->graph == ending)
        x->graph = NULL;
}

void sim_graph_delete(struct sim_graph *g) {
    ending = g;
    sim_object_each(NULL, SIM_EXEC, orphan);
    for (struct sim_node *n = g->first, *next; n; n = next) {
        next = n->next;
        forget_node(n);
    }
    sim_held_drop(&g->held);
    sim_object_delete(g);
}

struct sim_held **sim_graph_holds(CUgraph graph) {
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    return g ? &g->held : NULL;
}

static CUresult add_alloc(struct sim_graph *g, int device, size_t bytes, struct sim_node **node) {
    uint64_t base, space = sim_round_up(bytes, 2 << 20);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > (1ull << 40) || !sim_space_take(space, 0, &base))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->device = device;
    m->size = sim_round_up(bytes, 512);
    m->references = 1;
    m->range = sim_range_new(SIM_RANGE_GRAPH, base, bytes);
    m->range->space = space;
    m->range->device = device;
    m->range->owner = m;
    *node = add(g, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    (*node)->memory = m;
    (*node)->dptr = base;
    (*node)->bytes = bytes;
    return CUDA_SUCCESS;
}

static CUresult add_free(struct sim_graph *g, CUdeviceptr p, struct sim_node **node) {
    struct sim_range *r = sim_range_at(p);
    if (!r || r->base != p || r->kind != SIM_RANGE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    *node = add(g, CU_GRAPH_NODE_TYPE_MEM_FREE);
    (*node)->dptr = p;
    return CUDA_SUCCESS;
}

CUresult sim_graph_capture_alloc(struct sim_graph *g, int device, size_t bytes, CUdeviceptr *p) {
    struct sim_node *n;
    CUresult result = add_alloc(g, device, bytes, &n);
    if (!result)
        *p = n->dptr;
    return result;
}

CUresult sim_graph_capture_free(struct sim_graph *g, CUdeviceptr p) {
    struct sim_node *n;
    return add_free(g, p, &n);
}

void sim_graph_capture_other(struct sim_graph *g, CUgraphNodeType type) {
    add(g, type);
}

// Begins a call that adds a node to a graph.
static struct sim_graph *begin_add(struct sim_call *c, const char *api, const char *op,
                                   const void *node, CUgraph graph, const void *dependencies,
                                   size_t count) {
    sim_begin(c, api, op, SIM_NEED_INIT);
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!c->result && (!node || !g || (count && !dependencies)))
        c->result = CUDA_ERROR_INVALID_VALUE;
    return g;
}

static CUresult add_alloc_node(struct sim_call *c, struct sim_graph *g, CUgraphNode *node,
                               const CUmemPoolProps *props, size_t bytes, CUdeviceptr *dptr) {
    struct sim_node *n;
    c->op = "graph-alloc";
    sim_set_bytes(c, bytes);
    if (sim_device_valid(props->location.id))
        sim_set_device(c, props->location.id);
    if (c->result)
        return c->result;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device_valid(props->location.id) || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = add_alloc(g, props->location.id, bytes, &n);
    if (!result) {
        *node = (CUgraphNode)n;
        *dptr = n->dptr;
        sim_set_ptr(c, n->dptr);
    }
    return result;
}

static CUresult add_free_node(struct sim_call *c, struct sim_graph *g, CUgraphNode *node,
                              CUdeviceptr dptr) {
    struct sim_node *n;
    struct sim_range *r = sim_range_at(dptr);
    c->op = "graph-free";
    sim_set_ptr(c, dptr);
    if (r && r->device >= 0)
        sim_set_device(c, r->device);
    if (c->result)
        return c->result;
    CUresult result = add_free(g, dptr, &n);
    if (!result)
        *node = (CUgraphNode)n;
    return result;
}

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                        const CUgraphNode *dependencies, size_t numDependencies,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    struct sim_call c;
    struct sim_graph *g =
        begin_add(&c, __func__, "graph-alloc", phGraphNode, hGraph, dependencies, numDependencies);
    if (!c.result && !nodeParams)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (nodeParams)
        c.result = add_alloc_node(&c, g, phGraphNode, &nodeParams->poolProps, nodeParams->bytesize,
                                  &nodeParams->dptr);
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                       const CUgraphNode *dependencies, size_t numDependencies,
                                       CUdeviceptr dptr) {
    struct sim_call c;
    struct sim_graph *g =
        begin_add(&c, __func__, "graph-free", phGraphNode, hGraph, dependencies, numDependencies);
    c.result = add_free_node(&c, g, phGraphNode, dptr);
    return sim_end(&c);
}

static CUresult add_other(const char *api, CUgraphNode *node, CUgraph graph,
                          const void *dependencies, size_t count, CUgraphNodeType type) {
    struct sim_call c;
    struct sim_graph *g = begin_add(&c, api, NULL, node, graph, dependencies, count);
    if (!c.result)
        *node = (CUgraphNode)add(g, type);
    return sim_end(&c);
}

static CUresult add_conditional(struct sim_graph *g, CUgraphNode *node,
                                CUDA_CONDITIONAL_NODE_PARAMS *params, struct sim_context *ctx) {
    CUresult result;
    struct sim_bodies *bodies = sim_bodies_new(params, ctx, &result);
    if (!bodies)
        return result;
    struct sim_node *n = add(g, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    n->bodies = bodies;
    *node = (CUgraphNode)n;
    return CUDA_SUCCESS;
}

static CUresult add_any(const char *api, CUgraphNode *node, CUgraph graph, const void *dependencies,
                        size_t count, CUgraphNodeParams *params) {
    if (!params)
        return add_other(api, NULL, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY);
    struct sim_call c;
    struct sim_graph *g;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        g = begin_add(&c, api, NULL, node, graph, dependencies, count);
        c.result = add_alloc_node(&c, g, node, &params->alloc.poolProps, params->alloc.bytesize,
                                  &params->alloc.dptr);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        g = begin_add(&c, api, NULL, node, graph, dependencies, count);
        c.result = add_free_node(&c, g, node, params->free.dptr);
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        g = begin_add(&c, api, NULL, node, graph, dependencies, count);
        if (!c.result)
            c.result = add_conditional(g, node, &params->conditional, c.ctx);
        break;
    default:
        return add_other(api, node, graph, dependencies, count, params->type);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUgraphNodeParams *nodeParams) {
    return add_any(__func__, phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

#if CUDA_VERSION >= 12030
CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies,
                                   const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                   CUgraphNodeParams *nodeParams) {
    (void)dependencyData;
    return add_any(__func__, phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}
#endif

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies) {
    return add_other(__func__, phGraphNode, hGraph, dependencies, numDependencies,
                     CU_GRAPH_NODE_TYPE_EMPTY);
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies,
                                         const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    (void)nodeParams;
    return add_other(__func__, phGraphNode, hGraph, dependencies, numDependencies,
                     CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                              CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
    SIM_BEGIN(NULL, INIT);
    struct sim_node *n = sim_object_find(hNode, SIM_NODE);
    if (!c.result && (!params_out || !n || n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result) {
        memset(params_out, 0, sizeof *params_out);
        params_out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params_out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        params_out->poolProps.location.id = n->memory->device;
        params_out->bytesize = n->bytes;
        params_out->dptr = n->dptr;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
    SIM_BEGIN(NULL, INIT);
    struct sim_node *n = sim_object_find(hNode, SIM_NODE);
    if (!c.result && (!dptr_out || !n || n->type != CU_GRAPH_NODE_TYPE_MEM_FREE))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *dptr_out = n->dptr;
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
    SIM_BEGIN(NULL, INIT);
    struct sim_node *n = sim_object_find(hNode, SIM_NODE);
    if (!c.result && (!type || !n))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *type = n->type;
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
    SIM_BEGIN(NULL, INIT);
    struct sim_graph *g = sim_object_find(hGraph, SIM_GRAPH);
    if (!c.result && (!g || !numNodes))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result) {
        size_t count = 0;
        for (struct sim_node *n = g->first; n; n = n->next, count++)
            if (nodes && count < *numNodes)
                nodes[count] = (CUgraphNode)n;
        *numNodes = count;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
    SIM_BEGIN(NULL, INIT);
    if (!c.result && (!phGraph || flags))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *phGraph = (CUgraph)sim_graph_new(c.ctx);
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph) {
    SIM_BEGIN(NULL, INIT);
    struct sim_graph *g = sim_object_find(hGraph, SIM_GRAPH);
    if (!c.result && !g)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        sim_graph_delete(g);
    return sim_end(&c);
}

// ---- executables ----------------------------------------------------------------------------------

static bool has_memory(const struct sim_graph *g) {
    for (struct sim_node *n = g->first; n; n = n->next)
        if (n->memory)
            return true;
    return false;
}

static void collect_steps(struct sim_exec *x, struct sim_graph *g) {
    for (struct sim_node *n = g->first; n; n = n->next)
        x->count +=
            n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    x->steps = calloc(x->count + 1, sizeof *x->steps);
    if (!x->steps)
        abort();
    size_t i = 0;
    for (struct sim_node *n = g->first; n; n = n->next) {
        if (n->memory) {
            n->memory->references++;
            x->steps[i++].alloc = n->memory;
        } else if (n->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            x->steps[i++].release = n->dptr;
        }
    }
}

static CUresult instantiate(const char *api, CUgraphExec *out, CUgraph graph,
                            unsigned long long flags) {
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_CONTEXT);
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!c.result)
        c.result = sim_capture_unsafe();
    if (!c.result && (!out || !g))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && g->executables && has_memory(g))
        c.result = CUDA_ERROR_NOT_SUPPORTED;
    if (!c.result && !sim_charge(c.ctx->o.device, sim_param.graph))
        c.result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!c.result) {
        struct sim_exec *x = sim_object_new(sizeof *x, SIM_EXEC, NULL, c.ctx->o.device);
        x->graph = g;
        x->charged = sim_param.graph;
        x->flags = flags;
        collect_steps(x, g);
        sim_held_add(&x->held, g->held);
        g->executables++;
        *out = (CUgraphExec)x;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
                                    CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) {
    (void)phErrorNode, (void)logBuffer, (void)bufferSize;
    return instantiate(__func__, phGraphExec, hGraph, 0);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                                       CUgraphNode *phErrorNode, char *logBuffer,
                                       size_t bufferSize) {
    (void)phErrorNode, (void)logBuffer, (void)bufferSize;
    return instantiate(__func__, phGraphExec, hGraph, 0);
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                             unsigned long long flags) {
    return instantiate(__func__, phGraphExec, hGraph, flags);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    return instantiate(__func__, phGraphExec, hGraph,
                       instantiateParams ? instantiateParams->flags : 0);
}

CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(
    CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    return instantiate(__func__, phGraphExec, hGraph,
                       instantiateParams ? instantiateParams->flags : 0);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec) {
    SIM_BEGIN(NULL, INIT);
    struct sim_exec *x = sim_object_find(hGraphExec, SIM_EXEC);
    if (!c.result && !x)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result) {
        for (size_t i = 0; i < x->count; i++)
            if (x->steps[i].alloc) {
                x->steps[i].alloc->references--;
                drop_if_unused(x->steps[i].alloc);
            }
        if (x->graph)
            x->graph->executables--;
        sim_discharge(x->o.device, x->charged);
        sim_held_drop(&x->held);
        free(x->steps);
        sim_object_delete(x);
    }
    return sim_end(&c);
}

static uint64_t size_of(const struct sim_range *r) {
    return ((const struct memory *)r->owner)->size;
}

// The most graph memory that a launch will have in use at one time, on the device.
static uint64_t peak(const struct sim_exec *x, int device) {
    uint64_t used = sim_devices[device].graph_used, most = used;
    for (size_t i = 0; i < x->count; i++) {
        struct memory *m = x->steps[i].alloc;
        struct sim_range *r = m ? NULL : sim_range_at(x->steps[i].release);
        if (m && m->device == device)
            used += m->size;
        else if (r && r->kind == SIM_RANGE_GRAPH && r->device == device)
            used -= used >= size_of(r) ? size_of(r) : used;
        if (used > most)
            most = used;
    }
    return most;
}

static CUresult reserve(const struct sim_exec *x) {
    CUresult result = CUDA_SUCCESS;
    for (int device = 0; device < sim_param.devices && !result; device++)
        result = cover(device, peak(x, device));
    return result;
}

// What the last launch allocated and nobody has freed.
static CUresult check_leftovers(const struct sim_exec *x) {
    for (size_t i = 0; i < x->count; i++) {
        struct memory *m = x->steps[i].alloc;
        if (!m || !m->range->in_use)
            continue;
        if (!(x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
            return CUDA_ERROR_INVALID_VALUE;
        sim_graph_free(m->range);
    }
    return CUDA_SUCCESS;
}

static CUresult run(struct sim_exec *x) {
    CUresult result = check_leftovers(x);
    if (!result)
        result = reserve(x);
    for (size_t i = 0; i < x->count && !result; i++) {
        if (x->steps[i].alloc) {
            use(x->steps[i].alloc);
            continue;
        }
        struct sim_range *r = sim_range_at(x->steps[i].release);
        result = r && r->kind == SIM_RANGE_GRAPH ? sim_graph_free(r) : CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

static CUresult launch(const char *api, CUgraphExec exec, CUstream stream, bool per_thread,
                       bool upload) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream, per_thread);
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    if (!c.result && !x)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_GRAPH);
    else if (!c.result)
        c.result = upload ? reserve(x) : run(x);
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    return launch(__func__, hGraphExec, hStream, false, false);
}

CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    return launch(__func__, hGraphExec, hStream, true, false);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
    return launch(__func__, hGraphExec, hStream, false, true);
}

CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    return launch(__func__, hGraphExec, hStream, true, true);
}

static CUresult update(const char *api, CUgraphExec exec, CUgraph graph) {
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_INIT);
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    if (!c.result && (!x || !g))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && has_memory(g))
        c.result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (!c.result) { // the graph's references take the place of the executable's
        struct sim_held *was = x->held;
        x->held = NULL;
        sim_held_add(&x->held, g->held);
        sim_held_drop(&was);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphNode *hErrorNode_out,
                                   CUgraphExecUpdateResult *updateResult_out) {
    if (hErrorNode_out)
        *hErrorNode_out = NULL;
    CUresult result = update(__func__, hGraphExec, hGraph);
    if (updateResult_out)
        *updateResult_out = result ? CU_GRAPH_EXEC_UPDATE_ERROR : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return result;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                      CUgraphExecUpdateResultInfo *resultInfo) {
    CUresult result = update(__func__, hGraphExec, hGraph);
    if (resultInfo) {
        memset(resultInfo, 0, sizeof *resultInfo);
        resultInfo->result = result ? CU_GRAPH_EXEC_UPDATE_ERROR : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    return result;
}

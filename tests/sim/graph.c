// SPDX-License-Identifier: Apache-2.0
// Graphs and their nodes.
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "conditional.h"

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
        sim_graph_memory_drop(n->memory);
    }
    sim_bodies_delete(n->bodies);
    sim_object_delete(n);
}

void sim_graph_delete(struct sim_graph *g) {
    sim_graph_forget_executables(g);
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
    struct sim_graph_memory *m = calloc(1, sizeof *m);
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
    SIM_REFUSE_IF(c, !node || !g || (count && !dependencies), CUDA_ERROR_INVALID_VALUE);
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
    SIM_REFUSE_IF(&c, !nodeParams, CUDA_ERROR_INVALID_VALUE);
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

SIM_FORWARD(cuGraphAddNode,
            (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
             size_t numDependencies, CUgraphNodeParams *nodeParams),
            add_any, phGraphNode, hGraph, dependencies, numDependencies, nodeParams)

#if CUDA_VERSION >= 12030
SIM_FORWARD(cuGraphAddNode_v2,
            (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
             const CUgraphEdgeData *dependencyData, size_t numDependencies,
             CUgraphNodeParams *nodeParams),
            add_any, phGraphNode, hGraph, dependencies, numDependencies, nodeParams)
#endif

#if CUDA_VERSION >= 13040
SIM_FORWARD(cuGraphAddNode_v3,
            (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
             const CUgraphEdgeData *dependencyData, size_t numDependencies,
             CUgraphNodeParams *nodeParams),
            add_any, phGraphNode, hGraph, dependencies, numDependencies, nodeParams)
#endif

SIM_FORWARD(cuGraphAddEmptyNode,
            (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
             size_t numDependencies),
            add_other, phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY)
SIM_FORWARD(cuGraphAddKernelNode_v2,
            (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
             size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams),
            add_other, phGraphNode, hGraph, dependencies, numDependencies,
            CU_GRAPH_NODE_TYPE_KERNEL)

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                              CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
    SIM_BEGIN(NULL, INIT);
    struct sim_node *n = sim_object_find(hNode, SIM_NODE);
    SIM_REFUSE_IF(&c, !params_out || !n || n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                  CUDA_ERROR_INVALID_VALUE);
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
    SIM_REFUSE_IF(&c, !dptr_out || !n || n->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *dptr_out = n->dptr;
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
    SIM_BEGIN(NULL, INIT);
    struct sim_node *n = sim_object_find(hNode, SIM_NODE);
    SIM_REFUSE_IF(&c, !type || !n, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *type = n->type;
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
    SIM_BEGIN(NULL, INIT);
    struct sim_graph *g = sim_object_find(hGraph, SIM_GRAPH);
    SIM_REFUSE_IF(&c, !g || !numNodes, CUDA_ERROR_INVALID_VALUE);
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
    SIM_REFUSE_IF(&c, !phGraph || flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *phGraph = (CUgraph)sim_graph_new(c.ctx);
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph) {
    SIM_BEGIN(NULL, INIT);
    struct sim_graph *g = sim_object_find(hGraph, SIM_GRAPH);
    SIM_REFUSE_IF(&c, !g, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        sim_graph_delete(g);
    return sim_end(&c);
}

bool sim_graph_has_memory(const struct sim_graph *g) {
    for (struct sim_node *n = g->first; n; n = n->next)
        if (n->memory)
            return true;
    return false;
}

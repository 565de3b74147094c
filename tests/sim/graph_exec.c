// SPDX-License-Identifier: Apache-2.0
// Executable graphs: they are charged when they are made, and a launch does what the graph does
// with memory, in the order of its nodes.
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct step { // what a launch does with memory, in the order of the nodes
    struct sim_graph_memory *alloc;
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

static struct sim_graph *ending;

static void orphan(void *object) {
    struct sim_exec *x = object;
    if (x->graph == ending)
        x->graph = NULL;
}

void sim_graph_forget_executables(struct sim_graph *g) {
    ending = g;
    sim_object_each(NULL, SIM_EXEC, orphan);
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
    SIM_BEGIN_AS(api, NULL, CONTEXT);
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!c.result)
        c.result = sim_capture_unsafe();
    SIM_REFUSE_IF(&c, !out || !g, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, g->executables && sim_graph_has_memory(g), CUDA_ERROR_NOT_SUPPORTED);
    SIM_REFUSE_IF(&c, !sim_charge(c.ctx->o.device, sim_param.graph), CUDA_ERROR_OUT_OF_MEMORY);
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

SIM_FORWARD(cuGraphInstantiate,
            (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
             size_t bufferSize),
            instantiate, phGraphExec, hGraph, 0)
SIM_FORWARD(cuGraphInstantiate_v2,
            (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
             size_t bufferSize),
            instantiate, phGraphExec, hGraph, 0)
SIM_FORWARD(cuGraphInstantiateWithFlags,
            (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags), instantiate,
            phGraphExec, hGraph, flags)
SIM_FORWARD_PTSZ(cuGraphInstantiateWithParams,
                 (CUgraphExec * phGraphExec, CUgraph hGraph,
                  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
                 instantiate, phGraphExec, hGraph, instantiateParams ? instantiateParams->flags : 0)

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec) {
    SIM_BEGIN(NULL, INIT);
    struct sim_exec *x = sim_object_find(hGraphExec, SIM_EXEC);
    SIM_REFUSE_IF(&c, !x, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        for (size_t i = 0; i < x->count; i++)
            if (x->steps[i].alloc) {
                x->steps[i].alloc->references--;
                sim_graph_memory_drop(x->steps[i].alloc);
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
    return ((const struct sim_graph_memory *)r->owner)->size;
}

// The most graph memory that a launch will have in use at one time, on the device.
static uint64_t peak(const struct sim_exec *x, int device) {
    uint64_t used = sim_devices[device].graph_used, most = used;
    for (size_t i = 0; i < x->count; i++) {
        struct sim_graph_memory *m = x->steps[i].alloc;
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
        result = sim_graph_memory_cover(device, peak(x, device));
    return result;
}

// What the last launch allocated and nobody has freed.
static CUresult check_leftovers(const struct sim_exec *x) {
    for (size_t i = 0; i < x->count; i++) {
        struct sim_graph_memory *m = x->steps[i].alloc;
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
            sim_graph_memory_use(x->steps[i].alloc);
            continue;
        }
        struct sim_range *r = sim_range_at(x->steps[i].release);
        result = r && r->kind == SIM_RANGE_GRAPH ? sim_graph_free(r) : CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

static CUresult launch(const char *api, CUgraphExec exec, CUstream stream, bool upload) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    SIM_REFUSE_IF(&c, !x, CUDA_ERROR_INVALID_VALUE);
    if (!c.result && capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_GRAPH);
    else if (!c.result)
        c.result = upload ? reserve(x) : run(x);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuGraphLaunch, (CUgraphExec hGraphExec, CUstream hStream), launch, hGraphExec,
                 hStream, false)
SIM_FORWARD_PTSZ(cuGraphUpload, (CUgraphExec hGraphExec, CUstream hStream), launch, hGraphExec,
                 hStream, true)

static CUresult update(const char *api, CUgraphExec exec, CUgraph graph) {
    SIM_BEGIN_AS(api, NULL, INIT);
    struct sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    struct sim_exec *x = sim_object_find(exec, SIM_EXEC);
    SIM_REFUSE_IF(&c, !x || !g, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, sim_graph_has_memory(g), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
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

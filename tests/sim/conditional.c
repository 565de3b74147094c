// SPDX-License-Identifier: Apache-2.0
// Conditional nodes: their handles, and the graphs that are their bodies. No launch runs a body.
#include "conditional.h"

#include <stdlib.h>

struct sim_bodies {
    unsigned count;
    CUgraph graphs[];
};

// A handle of a graph is also good for the bodies of its conditional nodes, so only 0 is none.
CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out,
                                                CUgraph hGraph, CUcontext ctx,
                                                unsigned int defaultLaunchValue,
                                                unsigned int flags) {
    static CUgraphConditionalHandle last;
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c,
                  !pHandle_out || !sim_object_find(hGraph, SIM_GRAPH) ||
                      flags > CU_GRAPH_COND_ASSIGN_DEFAULT,
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, ctx && !sim_context_find(ctx), CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result)
        *pHandle_out = ++last;
    return sim_end(&c);
}

static bool valid(const CUDA_CONDITIONAL_NODE_PARAMS *p) {
    if (!p->handle || !p->size)
        return false;
    switch ((int)p->type) {
    case 0: // if, with an else since CUDA 12.8
        return p->size <= 2;
    case 1: // while
        return p->size == 1;
    case 2: // switch, since CUDA 12.8
        return p->size <= 1 << 16;
    default:
        return false;
    }
}

struct sim_bodies *sim_bodies_new(CUDA_CONDITIONAL_NODE_PARAMS *params, struct sim_context *ctx,
                                  CUresult *result) {
    *result = valid(params) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (*result)
        return NULL;
    struct sim_bodies *b = malloc(sizeof *b + params->size * sizeof *b->graphs);
    if (!b)
        abort();
    b->count = params->size;
    for (unsigned i = 0; i < b->count; i++)
        b->graphs[i] = (CUgraph)sim_graph_new(ctx);
    params->phGraph_out = b->graphs;
    return b;
}

void sim_bodies_delete(struct sim_bodies *b) {
    for (unsigned i = 0; b && i < b->count; i++)
        sim_graph_delete((struct sim_graph *)(void *)b->graphs[i]);
    free(b);
}

// SPDX-License-Identifier: Apache-2.0
// Hooks on graphs and stream capture.
//
// An address that a graph allocates is fixed when the node is made; memory comes when the graph is
// instantiated, uploaded or launched, and is kept by the device's graph pool. Those calls are
// measured, not attributed.
#define _GNU_SOURCE
#include <stdatomic.h>

#include "intercept/driver.h"
#include "intercept/hooks.h"

// ---- capture --------------------------------------------------------------------------------

static atomic_int captures; // streams of the process that are capturing

int ct_stream_any_capturing(void) {
    return atomic_load_explicit(&captures, memory_order_relaxed) > 0;
}

static int asks_capturing(CUstream stream, int ptsz) {
    const struct ct_driver *driver = ct_driver();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (ptsz && !stream)
        stream = CU_STREAM_PER_THREAD;
    // For the legacy stream the question fails while another stream captures, and harms nothing (cuda.h).
    return driver->stream_capturing && driver->stream_capturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// A stream may join a capture by waiting for an event, so the driver is asked, but only during one.
int ct_stream_is_capturing(CUstream stream, int ptsz) {
    return ct_stream_any_capturing() && asks_capturing(stream, ptsz);
}

static CUresult began(CUresult r) {
    if (r == CUDA_SUCCESS)
        atomic_fetch_add(&captures, 1);
    return r;
}

// cuStreamEndCapture ends an invalidated capture too, and then fails; on a stream that does not
// capture it fails and ends nothing. What the stream was before and is afterwards tells them apart.
#define ON_END_CAPTURE(symbol, PTSZ)                                                    \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUstream hStream, CUgraph *phGraph) { \
        const int before = ct_stream_is_capturing(hStream, PTSZ);                           \
        const CUresult r = real(hStream, phGraph);                                      \
        if (before && !asks_capturing(hStream, PTSZ))                                   \
            atomic_fetch_sub(&captures, 1);                                             \
        return r;                                                                       \
    }
ON_END_CAPTURE(cuStreamEndCapture, 0)
ON_END_CAPTURE(cuStreamEndCapture_ptsz, 1)

CUresult ct_on_cuStreamBeginCapture(ct_fn_cuStreamBeginCapture *real, CUstream hStream) {
    return began(real(hStream));
}

CUresult ct_on_cuStreamBeginCapture_ptsz(ct_fn_cuStreamBeginCapture_ptsz *real, CUstream hStream) {
    return began(real(hStream));
}

CUresult ct_on_cuStreamBeginCapture_v2(ct_fn_cuStreamBeginCapture_v2 *real, CUstream hStream,
                                       CUstreamCaptureMode mode) {
    return began(real(hStream, mode));
}

CUresult ct_on_cuStreamBeginCapture_v2_ptsz(ct_fn_cuStreamBeginCapture_v2_ptsz *real,
                                            CUstream hStream, CUstreamCaptureMode mode) {
    return began(real(hStream, mode));
}

#if CUDA_VERSION >= 12030
#define ON_BEGIN_CAPTURE_TO_GRAPH(symbol)                                                          \
    CUresult ct_on_##symbol(                                                                       \
        ct_fn_##symbol *real, CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,   \
        const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode) { \
        return began(real(hStream, hGraph, dependencies, dependencyData, numDependencies, mode));  \
    }
ON_BEGIN_CAPTURE_TO_GRAPH(cuStreamBeginCaptureToGraph)
ON_BEGIN_CAPTURE_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)
#endif

// ---- memory nodes ---------------------------------------------------------------------------

static void graph_alloc(struct ct_hook_call *call, CUresult r,
                        const CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    struct ct_event *e = &call->event;
    if (params) {
        if (r == CUDA_SUCCESS)
            CT_SET(e, ptr, params->dptr);
        CT_SET(e, bytes, params->bytesize);
        if (params->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            CT_SET(e, device, params->poolProps.location.id);
    }
    CT_SET(e, space, CT_SPACE_DEVICE);
    CT_SET(e, flags, CT_FLAG_GRAPH);
    ct_hook_alloc_exit(call, r);
}

CUresult ct_on_cuGraphAddMemAllocNode(ct_fn_cuGraphAddMemAllocNode *real, CUgraphNode *phGraphNode,
                                      CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies,
                                      CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuGraphAddMemAllocNode, CT_OP_GRAPH_ALLOC))
        return real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    const CUresult r = real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    graph_alloc(&call, r, nodeParams);
    return r;
}

CUresult ct_on_cuGraphAddMemFreeNode(ct_fn_cuGraphAddMemFreeNode *real, CUgraphNode *phGraphNode,
                                     CUgraph hGraph, const CUgraphNode *dependencies,
                                     size_t numDependencies, CUdeviceptr dptr) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuGraphAddMemFreeNode, CT_OP_GRAPH_FREE))
        return real(phGraphNode, hGraph, dependencies, numDependencies, dptr);
    const CUresult r = real(phGraphNode, hGraph, dependencies, numDependencies, dptr);
    CT_SET(&call.event, ptr, dptr);
    CT_SET(&call.event, flags, CT_FLAG_GRAPH);
    ct_hook_alloc_exit(&call, r);
    return r;
}

#if CUDA_VERSION >= 12020

// The general form; only memory nodes are recorded.
static int enter_node(struct ct_hook_call *call, enum ct_hook_id id, const CUgraphNodeParams *params) {
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return ct_hook_enter_timed(call, id, CT_OP_GRAPH_ALLOC);
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return ct_hook_enter_timed(call, id, CT_OP_GRAPH_FREE);
    return 0;
}

static void added_node(struct ct_hook_call *call, CUresult r, const CUgraphNodeParams *params) {
    struct ct_event *e = &call->event;
    CT_SET(e, flags, CT_FLAG_GRAPH);
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        CT_SET(e, ptr, params->free.dptr);
    } else {
        if (r == CUDA_SUCCESS)
            CT_SET(e, ptr, params->alloc.dptr);
        CT_SET(e, bytes, params->alloc.bytesize);
        CT_SET(e, space, CT_SPACE_DEVICE);
        if (params->alloc.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            CT_SET(e, device, params->alloc.poolProps.location.id);
    }
    ct_hook_alloc_exit(call, r);
}

CUresult ct_on_cuGraphAddNode(ct_fn_cuGraphAddNode *real, CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              CUgraphNodeParams *nodeParams) {
    struct ct_hook_call call;
    if (!enter_node(&call, CT_ID_cuGraphAddNode, nodeParams))
        return real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    const CUresult r = real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    added_node(&call, r, nodeParams);
    return r;
}

#endif

#define ON_ADD_NODE(symbol)                                                                       \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUgraphNode *phGraphNode, CUgraph hGraph,       \
                            const CUgraphNode *dependencies,                                      \
                            const CUgraphEdgeData *dependencyData, size_t numDependencies,        \
                            CUgraphNodeParams *nodeParams) {                                      \
        struct ct_hook_call call;                                                                      \
        if (!enter_node(&call, CT_ID_##symbol, nodeParams))                                       \
            return real(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,       \
                        nodeParams);                                                              \
        const CUresult r =                                                                        \
            real(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams); \
        added_node(&call, r, nodeParams);                                                         \
        return r;                                                                                 \
    }
#if CUDA_VERSION >= 12030
ON_ADD_NODE(cuGraphAddNode_v2)
#endif
#if CUDA_VERSION >= 13040
ON_ADD_NODE(cuGraphAddNode_v3)
#endif

// ---- when graphs take memory ----------------------------------------------------------------

#define MEASURED(symbol, call_real)                                \
    do {                                                           \
        struct ct_hook_call call;                                       \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MEMORY_SAMPLE)) \
            return call_real;                                      \
        ct_hook_measure_enter(&call);                                         \
        const CUresult r = call_real;                              \
        CT_SET(&call.event, flags, CT_FLAG_GRAPH);                 \
        ct_hook_measure_exit(&call, r);                                     \
        return r;                                                  \
    } while (0)

CUresult ct_on_cuGraphInstantiate(ct_fn_cuGraphInstantiate *real, CUgraphExec *phGraphExec,
                                  CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                  size_t bufferSize) {
    MEASURED(cuGraphInstantiate, real(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult ct_on_cuGraphInstantiate_v2(ct_fn_cuGraphInstantiate_v2 *real, CUgraphExec *phGraphExec,
                                     CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                     size_t bufferSize) {
    MEASURED(cuGraphInstantiate_v2, real(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult ct_on_cuGraphInstantiateWithFlags(ct_fn_cuGraphInstantiateWithFlags *real,
                                           CUgraphExec *phGraphExec, CUgraph hGraph,
                                           unsigned long long flags) {
    MEASURED(cuGraphInstantiateWithFlags, real(phGraphExec, hGraph, flags));
}

CUresult ct_on_cuGraphInstantiateWithParams(ct_fn_cuGraphInstantiateWithParams *real,
                                            CUgraphExec *phGraphExec, CUgraph hGraph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    MEASURED(cuGraphInstantiateWithParams, real(phGraphExec, hGraph, instantiateParams));
}

CUresult ct_on_cuGraphInstantiateWithParams_ptsz(ct_fn_cuGraphInstantiateWithParams_ptsz *real,
                                                 CUgraphExec *phGraphExec, CUgraph hGraph,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    MEASURED(cuGraphInstantiateWithParams_ptsz, real(phGraphExec, hGraph, instantiateParams));
}

// Launches and uploads are the hot path of a server: a sample now and then is all they get.
#define ON_LAUNCH(symbol)                                                                     \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUgraphExec hGraphExec, CUstream hStream) { \
        struct ct_hook_call call;                                                                  \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MEMORY_SAMPLE))                            \
            return real(hGraphExec, hStream);                                                 \
        const CUresult r = real(hGraphExec, hStream);                                         \
        ct_mem_info_sample(&call, 0);                                                                  \
        ct_hook_leave(&call);                                                                      \
        return r;                                                                             \
    }
ON_LAUNCH(cuGraphUpload)
ON_LAUNCH(cuGraphUpload_ptsz)
ON_LAUNCH(cuGraphLaunch)
ON_LAUNCH(cuGraphLaunch_ptsz)

CUresult ct_on_cuGraphExecDestroy(ct_fn_cuGraphExecDestroy *real, CUgraphExec hGraphExec) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuGraphExecDestroy, CT_OP_MEMORY_SAMPLE))
        return real(hGraphExec);
    const CUresult r = real(hGraphExec);
    ct_mem_info_sample(&call, 0);
    ct_hook_leave(&call);
    return r;
}

CUresult ct_on_cuDeviceGraphMemTrim(ct_fn_cuDeviceGraphMemTrim *real, CUdevice device) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuDeviceGraphMemTrim, CT_OP_POOL_TRIM))
        return real(device);
    CT_SET(&call.event, device, device);
    CT_SET(&call.event, flags, CT_FLAG_GRAPH);
    ct_hook_free_enter(&call);
    const CUresult r = real(device);
    ct_mem_info_sample(&call, 1);
    ct_hook_free_exit(&call, r);
    return r;
}

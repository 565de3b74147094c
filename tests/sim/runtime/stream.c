// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's streams, events, captures and graphs.
#include "runtime.h"

#include <string.h>

#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

// ---- streams and events
// ---------------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuStreamCreate, 2000, pStream, 0));
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuStreamCreate, 2000, pStream, flags));
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags,
                                                   int priority) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuStreamCreateWithPriority, 5050, pStream, flags, priority));
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuStreamDestroy, 4000, stream));
}

static cudaError_t do_cudaStreamSynchronize(bool pt, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamSynchronize, 2000, 7000, s));
}
TWO(cudaStreamSynchronize, (cudaStream_t stream), stream)

static cudaError_t do_cudaStreamQuery(bool pt, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamQuery, 2000, 7000, s));
}
TWO(cudaStreamQuery, (cudaStream_t stream), stream)

static cudaError_t do_cudaStreamGetPriority(bool pt, cudaStream_t s, int *priority) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamGetPriority, 5050, 7000, s, priority));
}
TWO(cudaStreamGetPriority, (cudaStream_t hStream, int *priority), hStream, priority)

static cudaError_t do_cudaStreamGetFlags(bool pt, cudaStream_t s, unsigned *flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamGetFlags, 5050, 7000, s, flags));
}
TWO(cudaStreamGetFlags, (cudaStream_t hStream, unsigned int *flags), hStream, flags)

static cudaError_t do_cudaLaunchHostFunc(bool pt, cudaStream_t s, cudaHostFn_t fn, void *data) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuLaunchHostFunc, 10000, 10000, s, fn, data));
}
TWO(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *userData), stream, fn,
    userData)

// The driver's callback takes the same arguments; a result of 0 has the same number.
static cudaError_t do_cudaStreamAddCallback(bool pt, cudaStream_t s, cudaStreamCallback_t callback,
                                            void *data, unsigned flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamAddCallback, 5000, 7000, s,
                                (CUstreamCallback)(void *)callback, data, flags));
}
TWO(cudaStreamAddCallback,
    (cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags),
    stream, callback, userData, flags)

static cudaError_t do_cudaStreamWaitEvent(bool pt, cudaStream_t s, cudaEvent_t event,
                                          unsigned flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamWaitEvent, 3020, 7000, s, event, flags));
}
TWO(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags), stream,
    event, flags)

static cudaError_t do_cudaStreamAttachMemAsync(bool pt, cudaStream_t s, void *p, size_t length,
                                               unsigned flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL_PTSZ(pt, cuStreamAttachMemAsync, 6000, 7000, s, ADDRESS(p), length, flags));
}
TWO(cudaStreamAttachMemAsync,
    (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags), stream, devPtr, length,
    flags)

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuEventCreate, 2000, event, 0));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuEventCreate, 2000, event, flags));
}

static cudaError_t do_cudaEventRecord(bool pt, cudaEvent_t event, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuEventRecord, 2000, 7000, event, s));
}
TWO(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), event, stream)

static cudaError_t do_cudaEventRecordWithFlags(bool pt, cudaEvent_t event, cudaStream_t s,
                                               unsigned flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuEventRecordWithFlags, 11010, 11010, event, s, flags));
}
TWO(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags), event,
    stream, flags)

cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuIpcGetEventHandle, 4010, (CUipcEventHandle *)(void *)handle, event));
}

cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle same;
    RETURN_IF_NO_CONTEXT;
    memcpy(&same, &handle, sizeof same);
    return simrt_done(CALL(cuIpcOpenEventHandle, 4010, event, same));
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuEventQuery, 2000, event));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuEventSynchronize, 2000, event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuEventElapsedTime, 2000, ms, start, end));
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuEventDestroy, 4000, event));
}

// ---- captures
// -------------------------------------------------------------------------------------------

static cudaError_t do_cudaStreamBeginCapture(bool pt, cudaStream_t s,
                                             enum cudaStreamCaptureMode mode) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL_PTSZ(pt, cuStreamBeginCapture, 10010, 10010, s, (CUstreamCaptureMode)mode));
}
TWO(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), stream, mode)

#if CUDART_VERSION >= 12030
static cudaError_t do_cudaStreamBeginCaptureToGraph(bool pt, cudaStream_t s, cudaGraph_t graph,
                                                    const cudaGraphNode_t *dependencies,
                                                    const cudaGraphEdgeData *data, size_t count,
                                                    enum cudaStreamCaptureMode mode) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamBeginCaptureToGraph, 12030, 12030, s, graph,
                                dependencies, (const CUgraphEdgeData *)(const void *)data, count,
                                (CUstreamCaptureMode)mode));
}
TWO(cudaStreamBeginCaptureToGraph,
    (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
     const cudaGraphEdgeData *dependencyData, size_t numDependencies,
     enum cudaStreamCaptureMode mode),
    stream, graph, dependencies, dependencyData, numDependencies, mode)
#endif

static cudaError_t do_cudaStreamEndCapture(bool pt, cudaStream_t s, cudaGraph_t *graph) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamEndCapture, 10000, 10000, s, graph));
}
TWO(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *pGraph), stream, pGraph)

static cudaError_t do_cudaStreamIsCapturing(bool pt, cudaStream_t s,
                                            enum cudaStreamCaptureStatus *status) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamIsCapturing, 10000, 10000, s,
                                (CUstreamCaptureStatus *)(void *)status));
}
TWO(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
    stream, pCaptureStatus)

#if CUDART_VERSION >= 13000 // CUDA 12 declares them, under the name without _v2
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                                  enum cudaStreamCaptureStatus *captureStatus_out,
                                                  unsigned long long *id_out,
                                                  cudaGraph_t *graph_out,
                                                  const cudaGraphNode_t **dependencies_out,
                                                  size_t *numDependencies_out);
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2_ptsz(
    cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
    unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
    size_t *numDependencies_out);
#endif
// What programs that were built for CUDA 12 call.
static cudaError_t do_cudaStreamGetCaptureInfo_v2(bool pt, cudaStream_t s,
                                                  enum cudaStreamCaptureStatus *status,
                                                  unsigned long long *id, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **dependencies,
                                                  size_t *count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamGetCaptureInfo, 11030, 11030, s,
                                (CUstreamCaptureStatus *)(void *)status, (cuuint64_t *)id, graph,
                                dependencies, count));
}
TWO(cudaStreamGetCaptureInfo_v2,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
     unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
     size_t *numDependencies_out),
    stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)

#if CUDART_VERSION >= 13000 // before, the name had fewer parameters
static cudaError_t do_cudaStreamGetCaptureInfo(bool pt, cudaStream_t s,
                                               enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **dependencies,
                                               const cudaGraphEdgeData **data, size_t *count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamGetCaptureInfo, 12030, 12030, s,
                                (CUstreamCaptureStatus *)(void *)status, (cuuint64_t *)id, graph,
                                dependencies, (const CUgraphEdgeData **)(void *)data, count));
}
TWO(cudaStreamGetCaptureInfo,
    (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
     unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
     const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),
    stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
    numDependencies_out)
#endif

#if CUDART_VERSION >= 13000 // before, the name had no edges
static cudaError_t do_cudaStreamUpdateCaptureDependencies(bool pt, cudaStream_t s,
                                                          cudaGraphNode_t *nodes,
                                                          const cudaGraphEdgeData *data,
                                                          size_t count, unsigned flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuStreamUpdateCaptureDependencies, 12030, 12030, s, nodes,
                                (const CUgraphEdgeData *)(const void *)data, count, flags));
}
TWO(cudaStreamUpdateCaptureDependencies,
    (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
     size_t numDependencies, unsigned int flags),
    stream, dependencies, dependencyData, numDependencies, flags)
#endif

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL(cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode *)(void *)mode));
}

// ---- graphs
// -----------------------------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphCreate, 10000, pGraph, flags));
}

// The driver's has the context, too: the current one.
cudaError_t CUDARTAPI cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out,
                                                       cudaGraph_t graph,
                                                       unsigned int defaultLaunchValue,
                                                       unsigned int flags) {
    CUcontext ctx = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = CALL(cuCtxGetCurrent, 4000, &ctx);
    if (!result)
        result =
            CALL(cuGraphConditionalHandleCreate, 12030, (CUgraphConditionalHandle *)pHandle_out,
                 graph, ctx, defaultLaunchValue, flags);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphDestroy, 10000, graph));
}

cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                        size_t *numNodes) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphGetNodes, 10000, graph, nodes, numNodes));
}

#if CUDART_VERSION >= 13000 // as above
cudaError_t CUDARTAPI cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                                   cudaGraphNode_t *pDependencies,
                                                   cudaGraphEdgeData *edgeData,
                                                   size_t *pNumDependencies) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphNodeGetDependencies, 12030, node, pDependencies,
                           (CUgraphEdgeData *)(void *)edgeData, pNumDependencies));
}
#endif

static void to_driver(CUDA_MEM_ALLOC_NODE_PARAMS *to, const struct cudaMemAllocNodeParams *from) {
    memset(to, 0, sizeof *to);
    to->poolProps.allocType = (CUmemAllocationType)from->poolProps.allocType;
    to->poolProps.handleTypes = (CUmemAllocationHandleType)from->poolProps.handleTypes;
    to->poolProps.location.type = (CUmemLocationType)from->poolProps.location.type;
    to->poolProps.location.id = from->poolProps.location.id;
    to->bytesize = from->bytesize;
}

cudaError_t CUDARTAPI cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t *pDependencies,
                                               size_t numDependencies,
                                               struct cudaMemAllocNodeParams *nodeParams) {
    RETURN_IF_NO_CONTEXT;
    CUDA_MEM_ALLOC_NODE_PARAMS same;
    to_driver(&same, nodeParams);
    CUresult result = CALL(cuGraphAddMemAllocNode, 11040, pGraphNode, graph, pDependencies,
                           numDependencies, &same);
    nodeParams->dptr = (void *)(uintptr_t)same.dptr;
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                              const cudaGraphNode_t *pDependencies,
                                              size_t numDependencies, void *dptr) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphAddMemFreeNode, 11040, pGraphNode, graph, pDependencies,
                           numDependencies, ADDRESS(dptr)));
}

cudaError_t CUDARTAPI cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphMemFreeNodeGetParams, 11040, node, (CUdeviceptr *)dptr_out));
}

cudaError_t CUDARTAPI cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                     struct cudaMemAllocNodeParams *params_out) {
    RETURN_IF_NO_CONTEXT;
    CUDA_MEM_ALLOC_NODE_PARAMS same;
    CUresult result = CALL(cuGraphMemAllocNodeGetParams, 11040, node, &same);
    if (!result) {
        memset(params_out, 0, sizeof *params_out);
        params_out->poolProps.allocType = (enum cudaMemAllocationType)same.poolProps.allocType;
        params_out->poolProps.location.type =
            (enum cudaMemLocationType)same.poolProps.location.type;
        params_out->poolProps.location.id = same.poolProps.location.id;
        params_out->bytesize = same.bytesize;
        params_out->dptr = (void *)(uintptr_t)same.dptr;
    }
    return simrt_done(result);
}

#if CUDART_VERSION >= 13000
// The two unions have the same layout.
cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies,
                                       const cudaGraphEdgeData *dependencyData,
                                       size_t numDependencies,
                                       struct cudaGraphNodeParams *nodeParams) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphAddNode, 12030, pGraphNode, graph, pDependencies,
                           (const CUgraphEdgeData *)(const void *)dependencyData, numDependencies,
                           (CUgraphNodeParams *)(void *)nodeParams));
}
#endif

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           unsigned long long flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphInstantiateWithFlags, 11040, pGraphExec, graph, flags));
}

cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                                    unsigned long long flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphInstantiateWithFlags, 11040, pGraphExec, graph, flags));
}

static cudaError_t do_cudaGraphInstantiateWithParams(bool pt, cudaGraphExec_t *exec,
                                                     cudaGraph_t graph,
                                                     cudaGraphInstantiateParams *params) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuGraphInstantiateWithParams, 12000, 12000, exec, graph,
                                (CUDA_GRAPH_INSTANTIATE_PARAMS *)(void *)params));
}
TWO(cudaGraphInstantiateWithParams,
    (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
     cudaGraphInstantiateParams *instantiateParams),
    pGraphExec, graph, instantiateParams)

static cudaError_t do_cudaGraphUpload(bool pt, cudaGraphExec_t exec, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuGraphUpload, 11010, 11010, exec, s));
}
TWO(cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream), graphExec, stream)

static cudaError_t do_cudaGraphLaunch(bool pt, cudaGraphExec_t exec, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuGraphLaunch, 10000, 10000, exec, s));
}
TWO(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream), graphExec, stream)

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphExecDestroy, 10000, graphExec));
}

cudaError_t CUDARTAPI cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                          cudaGraphExecUpdateResultInfo *resultInfo) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphExecUpdate, 12000, hGraphExec, hGraph,
                           (CUgraphExecUpdateResultInfo *)(void *)resultInfo));
}

cudaError_t CUDARTAPI cudaDeviceGraphMemTrim(int device) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuDeviceGraphMemTrim, 11040, device));
}

cudaError_t CUDARTAPI cudaDeviceGetGraphMemAttribute(int device,
                                                     enum cudaGraphMemAttributeType attr,
                                                     void *value) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL(cuDeviceGetGraphMemAttribute, 11040, device, (CUgraphMem_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaDeviceSetGraphMemAttribute(int device,
                                                     enum cudaGraphMemAttributeType attr,
                                                     void *value) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL(cuDeviceSetGraphMemAttribute, 11040, device, (CUgraphMem_attribute)attr, value));
}

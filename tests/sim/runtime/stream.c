// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's streams, events, captures and graphs.
#include "runtime.h"

#include <string.h>

#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

// ---- streams and events -------------------------------------------------------------------------

WITH_CONTEXT(cudaStreamCreate, (cudaStream_t * pStream), CALL(cuStreamCreate, 2000, pStream, 0))
WITH_CONTEXT(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags),
             CALL(cuStreamCreate, 2000, pStream, flags))
WITH_CONTEXT(cudaStreamCreateWithPriority,
             (cudaStream_t * pStream, unsigned int flags, int priority),
             CALL(cuStreamCreateWithPriority, 5050, pStream, flags, priority))
WITH_CONTEXT(cudaStreamDestroy, (cudaStream_t stream), CALL(cuStreamDestroy, 4000, stream))
BOTH(cudaStreamSynchronize, (cudaStream_t s), CALL_PTSZ(pt, cuStreamSynchronize, 2000, 7000, s))
BOTH(cudaStreamQuery, (cudaStream_t s), CALL_PTSZ(pt, cuStreamQuery, 2000, 7000, s))
BOTH(cudaStreamGetPriority, (cudaStream_t s, int *priority),
     CALL_PTSZ(pt, cuStreamGetPriority, 5050, 7000, s, priority))
BOTH(cudaStreamGetFlags, (cudaStream_t s, unsigned *flags),
     CALL_PTSZ(pt, cuStreamGetFlags, 5050, 7000, s, flags))
BOTH(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t fn, void *data),
     CALL_PTSZ(pt, cuLaunchHostFunc, 10000, 10000, s, fn, data))

// The driver's callback takes the same arguments; a result of 0 has the same number.
BOTH(cudaStreamAddCallback,
     (cudaStream_t s, cudaStreamCallback_t callback, void *data, unsigned flags),
     CALL_PTSZ(pt, cuStreamAddCallback, 5000, 7000, s, (CUstreamCallback)(void *)callback, data,
               flags))

BOTH(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t event, unsigned flags),
     CALL_PTSZ(pt, cuStreamWaitEvent, 3020, 7000, s, event, flags))
BOTH(cudaStreamAttachMemAsync, (cudaStream_t s, void *p, size_t length, unsigned flags),
     CALL_PTSZ(pt, cuStreamAttachMemAsync, 6000, 7000, s, ADDRESS(p), length, flags))
WITH_CONTEXT(cudaEventCreate, (cudaEvent_t * event), CALL(cuEventCreate, 2000, event, 0))
WITH_CONTEXT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
             CALL(cuEventCreate, 2000, event, flags))
BOTH(cudaEventRecord, (cudaEvent_t event, cudaStream_t s),
     CALL_PTSZ(pt, cuEventRecord, 2000, 7000, event, s))
BOTH(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t s, unsigned flags),
     CALL_PTSZ(pt, cuEventRecordWithFlags, 11010, 11010, event, s, flags))
WITH_CONTEXT(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
             CALL(cuIpcGetEventHandle, 4010, (CUipcEventHandle *)(void *)handle, event))

cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle same;
    RETURN_IF_NO_CONTEXT;
    memcpy(&same, &handle, sizeof same);
    return simrt_done(CALL(cuIpcOpenEventHandle, 4010, event, same));
}

WITH_CONTEXT(cudaEventQuery, (cudaEvent_t event), CALL(cuEventQuery, 2000, event))
WITH_CONTEXT(cudaEventSynchronize, (cudaEvent_t event), CALL(cuEventSynchronize, 2000, event))
WITH_CONTEXT(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
             CALL(cuEventElapsedTime, 2000, ms, start, end))
WITH_CONTEXT(cudaEventDestroy, (cudaEvent_t event), CALL(cuEventDestroy, 4000, event))

// ---- captures -----------------------------------------------------------------------------------

BOTH(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode),
     CALL_PTSZ(pt, cuStreamBeginCapture, 10010, 10010, s, (CUstreamCaptureMode)mode))

#if CUDART_VERSION >= 12030
BOTH(cudaStreamBeginCaptureToGraph,
     (cudaStream_t s, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
      const cudaGraphEdgeData *data, size_t count, enum cudaStreamCaptureMode mode),
     CALL_PTSZ(pt, cuStreamBeginCaptureToGraph, 12030, 12030, s, graph, dependencies,
               (const CUgraphEdgeData *)(const void *)data, count, (CUstreamCaptureMode)mode))
#endif

BOTH(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *graph),
     CALL_PTSZ(pt, cuStreamEndCapture, 10000, 10000, s, graph))
BOTH(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *status),
     CALL_PTSZ(pt, cuStreamIsCapturing, 10000, 10000, s, (CUstreamCaptureStatus *)(void *)status))

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
BOTH(cudaStreamGetCaptureInfo_v2,
     (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id,
      cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count),
     CALL_PTSZ(pt, cuStreamGetCaptureInfo, 11030, 11030, s, (CUstreamCaptureStatus *)(void *)status,
               (cuuint64_t *)id, graph, dependencies, count))

#if CUDART_VERSION >= 13000 // before, the name had fewer parameters
BOTH(cudaStreamGetCaptureInfo,
     (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id,
      cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **data,
      size_t *count),
     CALL_PTSZ(pt, cuStreamGetCaptureInfo, 12030, 12030, s, (CUstreamCaptureStatus *)(void *)status,
               (cuuint64_t *)id, graph, dependencies, (const CUgraphEdgeData **)(void *)data,
               count))
#endif

#if CUDART_VERSION >= 13000 // before, the name had no edges
BOTH(cudaStreamUpdateCaptureDependencies,
     (cudaStream_t s, cudaGraphNode_t *nodes, const cudaGraphEdgeData *data, size_t count,
      unsigned flags),
     CALL_PTSZ(pt, cuStreamUpdateCaptureDependencies, 12030, 12030, s, nodes,
               (const CUgraphEdgeData *)(const void *)data, count, flags))
#endif

WITH_CONTEXT(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
             CALL(cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode *)(void *)mode))

// ---- graphs -------------------------------------------------------------------------------------

WITH_CONTEXT(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags),
             CALL(cuGraphCreate, 10000, pGraph, flags))

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

WITH_CONTEXT(cudaGraphDestroy, (cudaGraph_t graph), CALL(cuGraphDestroy, 10000, graph))
WITH_CONTEXT(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes),
             CALL(cuGraphGetNodes, 10000, graph, nodes, numNodes))

#if CUDART_VERSION >= 13000 // as above
WITH_CONTEXT(cudaGraphNodeGetDependencies,
             (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData,
              size_t *pNumDependencies),
             CALL(cuGraphNodeGetDependencies, 12030, node, pDependencies,
                  (CUgraphEdgeData *)(void *)edgeData, pNumDependencies))
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

WITH_CONTEXT(cudaGraphAddMemFreeNode,
             (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
              size_t numDependencies, void *dptr),
             CALL(cuGraphAddMemFreeNode, 11040, pGraphNode, graph, pDependencies, numDependencies,
                  ADDRESS(dptr)))
WITH_CONTEXT(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *dptr_out),
             CALL(cuGraphMemFreeNodeGetParams, 11040, node, (CUdeviceptr *)dptr_out))

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
WITH_CONTEXT(cudaGraphAddNode,
             (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
              const cudaGraphEdgeData *dependencyData, size_t numDependencies,
              struct cudaGraphNodeParams *nodeParams),
             CALL(cuGraphAddNode, 12030, pGraphNode, graph, pDependencies,
                  (const CUgraphEdgeData *)(const void *)dependencyData, numDependencies,
                  (CUgraphNodeParams *)(void *)nodeParams))
#endif

WITH_CONTEXT(cudaGraphInstantiate,
             (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
             CALL(cuGraphInstantiateWithFlags, 11040, pGraphExec, graph, flags))
WITH_CONTEXT(cudaGraphInstantiateWithFlags,
             (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
             CALL(cuGraphInstantiateWithFlags, 11040, pGraphExec, graph, flags))
BOTH(cudaGraphInstantiateWithParams,
     (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams *params),
     CALL_PTSZ(pt, cuGraphInstantiateWithParams, 12000, 12000, exec, graph,
               (CUDA_GRAPH_INSTANTIATE_PARAMS *)(void *)params))
BOTH(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t s),
     CALL_PTSZ(pt, cuGraphUpload, 11010, 11010, exec, s))
BOTH(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t s),
     CALL_PTSZ(pt, cuGraphLaunch, 10000, 10000, exec, s))
WITH_CONTEXT(cudaGraphExecDestroy, (cudaGraphExec_t graphExec),
             CALL(cuGraphExecDestroy, 10000, graphExec))
WITH_CONTEXT(cudaGraphExecUpdate,
             (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
              cudaGraphExecUpdateResultInfo *resultInfo),
             CALL(cuGraphExecUpdate, 12000, hGraphExec, hGraph,
                  (CUgraphExecUpdateResultInfo *)(void *)resultInfo))
WITH_CONTEXT(cudaDeviceGraphMemTrim, (int device), CALL(cuDeviceGraphMemTrim, 11040, device))
WITH_CONTEXT(cudaDeviceGetGraphMemAttribute,
             (int device, enum cudaGraphMemAttributeType attr, void *value),
             CALL(cuDeviceGetGraphMemAttribute, 11040, device, (CUgraphMem_attribute)attr, value))
WITH_CONTEXT(cudaDeviceSetGraphMemAttribute,
             (int device, enum cudaGraphMemAttributeType attr, void *value),
             CALL(cuDeviceSetGraphMemAttribute, 11040, device, (CUgraphMem_attribute)attr, value))

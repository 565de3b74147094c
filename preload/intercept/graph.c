// SPDX-License-Identifier: Apache-2.0
// Hooks on graphs.
//
// The address that a graph allocates is fixed when its node is added. The memory comes later, when
// the graph is instantiated, uploaded or launched, and stays in the device's graph pool afterwards.
// Those calls are measured or sampled; their memory is not attributed to a node.
#define _GNU_SOURCE
#include "intercept/device_info.h"
#include "intercept/hook_scope.h"

// ---- memory nodes ---------------------------------------------------------------------------

#if CUDA_VERSION >= 12020

// cuGraphAddNode adds nodes of all types; only memory nodes are recorded.
static int enter_node(struct ct_hook_call *call, enum ct_hook_id id,
                      const CUgraphNodeParams *params) {
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return ct_hook_enter_timed(call, id, CT_OP_GRAPH_ALLOC);
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return ct_hook_enter_timed(call, id, CT_OP_GRAPH_FREE);
    return 0;
}

static void node_exit(struct ct_hook_call *call, CUresult r, const CUgraphNodeParams *params) {
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

#define CT_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_NODE_HOOK(symbol, base, abi, ptsz, params, args)         \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) { \
        struct ct_hook_call call;                                   \
        if (!enter_node(&call, CT_ID_##symbol, nodeParams))         \
            return real args;                                       \
        const CUresult r = real args;                               \
        node_exit(&call, r, nodeParams);                            \
        return r;                                                   \
    }
#include "intercept/hooks.def"

#endif

// ---- calls at which a graph gets or returns memory ------------------------------------------

// Launches and uploads are the hot path of a server, so they are sampled at intervals only. One
// that runs out of memory is an event of its own.
static void launch_exit(struct ct_hook_call *call, CUresult r) {
    ct_hook_called(call);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        CT_SET(&call->event, flags, CT_FLAG_GRAPH);
        ct_hook_measure_exit(call, r);
        return;
    }
    ct_mem_info_sample(call->event.api, 0);
    ct_hook_leave(call);
}

#define ON_LAUNCH(symbol)                                                                     \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUgraphExec hGraphExec, CUstream hStream) { \
        struct ct_hook_call call;                                                             \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MEMORY_SAMPLE))                       \
            return real(hGraphExec, hStream);                                                 \
        const CUresult r = real(hGraphExec, hStream);                                         \
        launch_exit(&call, r);                                                                \
        return r;                                                                             \
    }
ON_LAUNCH(cuGraphUpload)
ON_LAUNCH(cuGraphUpload_ptsz)
ON_LAUNCH(cuGraphLaunch)
ON_LAUNCH(cuGraphLaunch_ptsz)

CUresult ct_on_cuDeviceGraphMemTrim(ct_fn_cuDeviceGraphMemTrim *real, CUdevice device) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuDeviceGraphMemTrim, CT_OP_POOL_TRIM))
        return real(device);
    CT_SET(&call.event, device, device);
    CT_SET(&call.event, flags, CT_FLAG_GRAPH);
    ct_hook_free_enter(&call);
    const CUresult r = real(device);
    ct_mem_info_sample(call.event.api, 1);
    ct_hook_free_exit(&call, r);
    return r;
}

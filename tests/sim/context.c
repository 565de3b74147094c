// SPDX-License-Identifier: Apache-2.0
// Contexts: primary ones, created ones, green ones; each thread's stack of current contexts; and
// the limits, which take device memory.
#include "sim.h"

#include <string.h>

#define DEPTH 32

struct current { // by serial as well: the address may belong to a later context by now
    struct sim_context *ctx;
    uint64_t serial;
};

static _Thread_local struct current stack[DEPTH];
static _Thread_local unsigned height;

// ---- the current context ------------------------------------------------------------------------

static bool alive(const struct current *x) {
    struct sim_context *ctx = sim_object_find(x->ctx, SIM_CONTEXT);
    return ctx && ctx->o.serial == x->serial && ctx->active;
}

struct sim_context *sim_current(CUresult *why_not) {
    if (height == 0 || !stack[height - 1].ctx) {
        *why_not = CUDA_ERROR_INVALID_CONTEXT;
        return NULL;
    }
    if (!alive(&stack[height - 1])) {
        *why_not = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return NULL;
    }
    return stack[height - 1].ctx;
}

struct sim_context *sim_context_find(CUcontext handle) {
    struct sim_context *ctx = sim_object_find(handle, SIM_CONTEXT);
    return ctx && ctx->active ? ctx : NULL;
}

static CUresult push(struct sim_context *ctx) {
    if (height == DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    stack[height++] = (struct current){ctx, ctx ? ctx->o.serial : 0};
    return CUDA_SUCCESS;
}

// ---- life and death -----------------------------------------------------------------------------

static CUresult charge(struct sim_context *ctx, int device) {
    if (!sim_charge(device, sim_param.context))
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->charged = sim_param.context;
    ctx->active = true;
    ctx->sticky = CUDA_SUCCESS;
    memset(ctx->limits, 0, sizeof ctx->limits);
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    sim_count_context(device, 1);
    return CUDA_SUCCESS;
}

static void end_context(struct sim_context *ctx) {
    sim_stream_end_context(ctx);
    sim_array_end_context(ctx);
    sim_module_end_context(ctx);
    sim_memory_end_context(ctx);
    sim_host_end_context(ctx);
    sim_discharge(ctx->o.device, ctx->charged + ctx->limit_charge);
    sim_count_context(ctx->o.device, -1);
    ctx->charged = ctx->limit_charge = 0;
    ctx->active = false;
    ctx->references = 0;
    ctx->sticky = CUDA_SUCCESS;
}

static int ending_device;

static void end_green(void *object) {
    struct sim_context *ctx = object;
    if (ctx->green && ctx->o.device == ending_device)
        ctx->active = false;
}

// A primary context takes the green ones with it that stand on it.
static void destroy(struct sim_context *ctx) {
    end_context(ctx);
    ending_device = ctx->o.device;
    if (ctx->primary)
        sim_object_each(NULL, SIM_CONTEXT, end_green);
    else
        sim_object_delete(ctx);
}

CUresult sim_primary_retain(int device, bool *created, struct sim_context **out) {
    struct sim_context **ctx = &sim_devices[device].primary;
    if (!*ctx) {
        *ctx = sim_object_new(sizeof **ctx, SIM_CONTEXT, NULL, device);
        (*ctx)->primary = true;
    }
    *created = !(*ctx)->active;
    if (*created) {
        CUresult result = charge(*ctx, device);
        if (result)
            return result;
    }
    (*ctx)->references++;
    *out = *ctx;
    return CUDA_SUCCESS;
}

void sim_primary_release(struct sim_context *ctx, bool *destroyed) {
    *destroyed = --ctx->references == 0;
    if (*destroyed)
        destroy(ctx);
}

// ---- primary contexts ---------------------------------------------------------------------------

static void begin_primary(struct sim_call *c, const char *api, int device) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    c->has &= ~(unsigned)(SIM_HAS_CONTEXT | SIM_HAS_DEVICE);
    SIM_REFUSE_IF(c, !sim_device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    if (sim_device_valid(device))
        sim_set_device(c, device);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    struct sim_call c;
    struct sim_context *ctx = NULL;
    bool created = true;
    begin_primary(&c, __func__, dev);
    SIM_REFUSE_IF(&c, !pctx, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = sim_primary_retain(dev, &created, &ctx);
    // One more reference is no creation; a refusal is one that failed.
    c.op = created || c.result ? "context-create" : NULL;
    if (!c.result) {
        *pctx = (CUcontext)ctx;
        sim_set_context(&c, ctx);
    }
    sim_end(&c);
    if (!c.result && created)
        sim_reentrant_call();
    return c.result;
}

static CUresult release(const char *api, CUdevice dev) {
    struct sim_call c;
    bool destroyed;
    begin_primary(&c, api, dev);
    struct sim_context *ctx = sim_device_valid(dev) ? sim_devices[dev].primary : NULL;
    SIM_REFUSE_IF(&c, !ctx || !ctx->active, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result) {
        sim_set_context(&c, ctx);
        sim_primary_release(ctx, &destroyed);
        c.op = destroyed ? "context-destroy" : NULL;
    }
    return sim_end(&c);
}

SIM_FORWARD(cuDevicePrimaryCtxRelease, (CUdevice dev), release, dev)
SIM_FORWARD(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), release, dev)

static CUresult reset(const char *api, CUdevice dev) {
    struct sim_call c;
    begin_primary(&c, api, dev);
    c.op = "context-destroy";
    struct sim_context *ctx = sim_device_valid(dev) ? sim_devices[dev].primary : NULL;
    if (ctx)
        sim_set_context(&c, ctx);
    if (!c.result && ctx && ctx->active) {
        destroy(ctx);
        sim_pool_reset_device(dev);
        sim_graph_reset_device(dev);
    }
    return sim_end(&c);
}

SIM_FORWARD(cuDevicePrimaryCtxReset, (CUdevice dev), reset, dev)
SIM_FORWARD(cuDevicePrimaryCtxReset_v2, (CUdevice dev), reset, dev)

static CUresult set_flags(const char *api, CUdevice dev, unsigned int flags) {
    struct sim_call c;
    begin_primary(&c, api, dev);
    if (!c.result && sim_devices[dev].primary)
        sim_devices[dev].primary->flags = flags;
    return sim_end(&c);
}

SIM_FORWARD(cuDevicePrimaryCtxSetFlags, (CUdevice dev, unsigned int flags), set_flags, dev, flags)
SIM_FORWARD(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), set_flags, dev,
            flags)

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
    struct sim_call c;
    begin_primary(&c, __func__, dev);
    SIM_REFUSE_IF(&c, !flags || !active, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        struct sim_context *ctx = sim_devices[dev].primary;
        *flags = ctx ? ctx->flags : 0;
        *active = ctx && ctx->active;
    }
    return sim_end(&c);
}

// ---- contexts that a program creates ------------------------------------------------------------

static CUresult create(const char *api, CUcontext *pctx, unsigned int flags, CUdevice dev,
                       unsigned version) {
    struct sim_call c;
    begin_primary(&c, api, dev);
    c.op = "context-create";
    SIM_REFUSE_IF(&c, !pctx, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        struct sim_context *ctx = sim_object_new(sizeof *ctx, SIM_CONTEXT, NULL, dev);
        c.result = charge(ctx, dev);
        if (!c.result && push(ctx)) {
            destroy(ctx);
            c.result = CUDA_ERROR_OUT_OF_MEMORY;
        } else if (c.result) {
            sim_object_delete(ctx);
        } else {
            ctx->references = 1;
            ctx->flags = flags;
            ctx->api_version = version;
            *pctx = (CUcontext)ctx;
            sim_set_context(&c, ctx);
        }
    }
    sim_end(&c);
    if (!c.result)
        sim_reentrant_call();
    return c.result;
}

SIM_FORWARD(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), create, pctx, flags,
            dev, 3010)
SIM_FORWARD(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), create, pctx,
            flags, dev, 3020)
SIM_FORWARD(cuCtxCreate_v3,
            (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
             CUdevice dev),
            create, pctx, flags, dev, 3020)

#if CUDA_VERSION >= 12050
SIM_FORWARD(cuCtxCreate_v4,
            (CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
             CUdevice dev),
            create, pctx, flags, dev, 3020)
#endif

static CUresult destroy_created(const char *api, CUcontext handle) {
    SIM_BEGIN_AS(api, "context-destroy", INIT);
    struct sim_context *ctx = sim_context_find(handle);
    sim_set_context(&c, handle);
    c.has &= ~(unsigned)SIM_HAS_DEVICE;
    if (ctx)
        sim_set_device(&c, ctx->o.device);
    SIM_REFUSE_IF(&c, !ctx || ctx->primary || ctx->green, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result) {
        if (height && stack[height - 1].ctx == ctx)
            height--;
        destroy(ctx);
    }
    return sim_end(&c);
}

SIM_FORWARD(cuCtxDestroy, (CUcontext ctx), destroy_created, ctx)
SIM_FORWARD(cuCtxDestroy_v2, (CUcontext ctx), destroy_created, ctx)

CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !pctx || flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        c.ctx->references++;
        *pctx = (CUcontext)c.ctx;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxDetach(CUcontext handle) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = sim_context_find(handle);
    SIM_REFUSE_IF(&c, !ctx || ctx->primary || ctx->green, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result && --ctx->references == 0) {
        c.op = "context-destroy";
        sim_set_context(&c, ctx);
        sim_set_device(&c, ctx->o.device);
        if (height && stack[height - 1].ctx == ctx)
            height--;
        destroy(ctx);
    }
    return sim_end(&c);
}

// ---- what is current ---------------------------------------------------------------------------

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !pctx, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *pctx = height ? (CUcontext)stack[height - 1].ctx : NULL;
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = sim_context_find(handle);
    SIM_REFUSE_IF(&c, handle && !ctx, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result) {
        if (height)
            height--;
        if (ctx)
            push(ctx);
    }
    return sim_end(&c);
}

static CUresult push_current(const char *api, CUcontext handle) {
    SIM_BEGIN_AS(api, NULL, INIT);
    struct sim_context *ctx = sim_context_find(handle);
    if (!c.result)
        c.result = ctx ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
    return sim_end(&c);
}

SIM_FORWARD(cuCtxPushCurrent, (CUcontext ctx), push_current, ctx)
SIM_FORWARD(cuCtxPushCurrent_v2, (CUcontext ctx), push_current, ctx)

static CUresult pop_current(const char *api, CUcontext *pctx) {
    SIM_BEGIN_AS(api, NULL, INIT);
    SIM_REFUSE_IF(&c, height == 0, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result) {
        height--;
        if (pctx)
            *pctx = (CUcontext)stack[height].ctx;
    }
    return sim_end(&c);
}

SIM_FORWARD(cuCtxPopCurrent, (CUcontext * pctx), pop_current, pctx)
SIM_FORWARD(cuCtxPopCurrent_v2, (CUcontext * pctx), pop_current, pctx)

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !device, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *device = c.ctx->o.device;
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxSynchronize(void) {
    SIM_BEGIN(NULL, CONTEXT);
    if (!c.result)
        c.result = sim_capture_unsafe();
    if (!c.result)
        sim_pool_synchronise(c.ctx->o.device);
    return sim_end(&c);
}

#if CUDA_VERSION >= 13000
CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext handle) {
    SIM_BEGIN(NULL, INIT);
    CUresult why_not = CUDA_SUCCESS;
    struct sim_context *ctx = handle ? sim_context_find(handle) : sim_current(&why_not);
    SIM_REFUSE_IF(&c, !device, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !ctx, handle ? CUDA_ERROR_INVALID_CONTEXT : why_not);
    if (!c.result)
        *device = ctx->o.device;
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle) {
    SIM_BEGIN(NULL, INIT);
    CUresult why_not = CUDA_SUCCESS;
    struct sim_context *ctx = handle ? sim_context_find(handle) : sim_current(&why_not);
    SIM_REFUSE_IF(&c, !ctx, handle ? CUDA_ERROR_INVALID_CONTEXT : why_not);
    if (!c.result)
        c.result = sim_capture_unsafe();
    if (!c.result)
        sim_pool_synchronise(ctx->o.device);
    return sim_end(&c);
}
#endif

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !flags, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *flags = c.ctx->flags;
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int *version) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = handle ? sim_context_find(handle) : c.ctx;
    SIM_REFUSE_IF(&c, !version, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !ctx, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result)
        *version = ctx->api_version ? ctx->api_version : 3020;
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *ctxId) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = handle ? sim_context_find(handle) : c.ctx;
    SIM_REFUSE_IF(&c, !ctxId, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !ctx, handle ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result)
        *ctxId = ctx->o.serial;
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    SIM_BEGIN(NULL, CONTEXT);
    if (!c.result && leastPriority)
        *leastPriority = 0;
    if (!c.result && greatestPriority)
        *greatestPriority = -5;
    return sim_end(&c);
}

// There is no profiler to start.
CUresult CUDAAPI cuProfilerStart(void) {
    SIM_BEGIN(NULL, CONTEXT);
    return sim_end(&c);
}

CUresult CUDAAPI cuProfilerStop(void) {
    SIM_BEGIN(NULL, CONTEXT);
    return sim_end(&c);
}

static CUresult peer(const char *api, CUcontext handle) {
    SIM_BEGIN_AS(api, NULL, CONTEXT);
    struct sim_context *ctx = sim_context_find(handle);
    SIM_REFUSE_IF(&c, !ctx, CUDA_ERROR_INVALID_CONTEXT);
    SIM_REFUSE_IF(&c, ctx->o.device == c.ctx->o.device, CUDA_ERROR_INVALID_DEVICE);
    return sim_end(&c);
}

SIM_FORWARD(cuCtxEnablePeerAccess, (CUcontext peerContext, unsigned int Flags), peer, peerContext)
SIM_FORWARD(cuCtxDisablePeerAccess, (CUcontext peerContext), peer, peerContext)

// ---- limits -------------------------------------------------------------------------------------

// What a limit takes beyond what the context has reserved for it at its start. The stack for all
// threads of the device, to the byte as on an H100 (132 multiprocessors; tests/gpu/results); heap
// and printf buffer as they are, which there take nothing before a kernel needs them.
static uint64_t limit_cost(const struct sim_context *ctx) {
    uint64_t stack_threads = 132ull * 2048;
    uint64_t cost = 0;
    if (ctx->limits[CU_LIMIT_STACK_SIZE] > 1024)
        cost += (ctx->limits[CU_LIMIT_STACK_SIZE] - 1024) * stack_threads;
    if (ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] > 1 << 20)
        cost += ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] - (1 << 20);
    if (ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] > 8 << 20)
        cost += ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] - (8 << 20);
    return sim_round_up(cost, sim_param.chunk);
}

static bool known_limit(CUlimit limit) {
    return (int)limit >= 0 && (int)limit < SIM_LIMITS && limit < CU_LIMIT_MAX;
}

static CUresult set_limit(struct sim_context *ctx, CUlimit limit, size_t value) {
    if (!known_limit(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (value > 1ull << 40)
        return CUDA_ERROR_INVALID_VALUE;
    size_t before = ctx->limits[limit];
    ctx->limits[limit] = value;
    uint64_t cost = sim_param.limit_charges ? limit_cost(ctx) : 0;
    if (cost > ctx->limit_charge && !sim_charge(ctx->o.device, cost - ctx->limit_charge)) {
        ctx->limits[limit] = before;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (cost < ctx->limit_charge)
        sim_discharge(ctx->o.device, ctx->limit_charge - cost);
    ctx->limit_charge = cost;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
    SIM_BEGIN("limit", CONTEXT);
    sim_set_handle(&c, (uint64_t)limit);
    sim_set_bytes(&c, value);
    if (!c.result)
        c.result = set_limit(c.ctx, limit, value);
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !pvalue, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !known_limit(limit), CUDA_ERROR_UNSUPPORTED_LIMIT);
    if (!c.result)
        *pvalue = c.ctx->limits[limit];
    return sim_end(&c);
}

// ---- green contexts: a share of the device's multiprocessors, on top of the primary context -----

#if CUDA_VERSION >= 12040
CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
                                        CUdevResourceType type) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !resource || type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    if (!c.result) {
        memset(resource, 0, sizeof *resource);
        resource->type = CU_DEV_RESOURCE_TYPE_SM;
        resource->sm.smCount = 132;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                           unsigned int nbResources) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !phDesc || !resources || !nbResources, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *phDesc = sim_object_new(sizeof(struct sim_object), SIM_DESCRIPTOR, NULL, 0);
    return sim_end(&c);
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                                  unsigned int flags) {
    struct sim_call c;
    struct sim_context *primary = NULL;
    bool created;
    begin_primary(&c, __func__, dev);
    c.op = "context-create";
    SIM_REFUSE_IF(&c,
                  !phCtx || !sim_object_find(desc, SIM_DESCRIPTOR) ||
                      !(flags & CU_GREEN_CTX_DEFAULT_STREAM),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = sim_primary_retain(dev, &created, &primary);
    if (!c.result) {
        struct sim_context *ctx = sim_object_new(sizeof *ctx, SIM_CONTEXT, NULL, dev);
        ctx->green = ctx->active = true;
        memcpy(ctx->limits, primary->limits, sizeof ctx->limits);
        *phCtx = (CUgreenCtx)ctx;
        sim_set_context(&c, ctx);
        sim_set_object(&c, ctx);
    }
    return sim_end(&c);
}

static struct sim_context *find_green(CUgreenCtx handle) {
    struct sim_context *ctx = sim_context_find((CUcontext)(void *)handle);
    return ctx && ctx->green ? ctx : NULL;
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx) {
    SIM_BEGIN("context-destroy", INIT);
    struct sim_context *ctx = find_green(hCtx);
    sim_set_context(&c, hCtx);
    sim_set_object(&c, hCtx);
    SIM_REFUSE_IF(&c, !ctx, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result) {
        bool destroyed;
        struct sim_context *primary = sim_devices[ctx->o.device].primary;
        sim_set_device(&c, ctx->o.device);
        sim_stream_end_context(ctx);
        sim_object_delete(ctx);
        if (primary->active)
            sim_primary_release(primary, &destroyed);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = find_green(hCtx);
    SIM_REFUSE_IF(&c, !pContext, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !ctx, CUDA_ERROR_INVALID_CONTEXT);
    if (!c.result)
        *pContext = (CUcontext)ctx;
    return sim_end(&c);
}
#endif

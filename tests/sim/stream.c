// SPDX-License-Identifier: Apache-2.0
// Streams and events. Work is done at once, so a stream is little more than a handle with a
// capture state.
#include "stream.h"

#include <string.h>

// ---- which stream -------------------------------------------------------------------------------

static struct sim_stream *new_stream(struct sim_context *ctx, unsigned flags, int priority) {
    struct sim_stream *s = sim_object_new(sizeof *s, SIM_STREAM, ctx, ctx->o.device);
    s->flags = flags;
    s->priority = priority;
    return s;
}

static struct sim_stream *legacy_of(struct sim_context *ctx) {
    if (!ctx->legacy) {
        ctx->legacy = new_stream(ctx, 0, 0);
        ctx->legacy->builtin = true;
    }
    return ctx->legacy;
}

// The calling thread's own stream of a context; a few contexts per thread are remembered.
static struct sim_stream *per_thread_of(struct sim_context *ctx) {
    static _Thread_local struct {
        struct sim_stream *stream;
        uint64_t serial, context;
    } mine[4];
    static _Thread_local unsigned next;
    for (int i = 0; i < 4; i++)
        if (mine[i].context == ctx->o.serial) {
            struct sim_stream *s = sim_object_find(mine[i].stream, SIM_STREAM);
            if (s && s->o.serial == mine[i].serial)
                return s;
        }
    struct sim_stream *s = new_stream(ctx, 0, 0);
    s->builtin = true;
    unsigned i = next++ % 4;
    mine[i].stream = s;
    mine[i].serial = s->o.serial;
    mine[i].context = ctx->o.serial;
    return s;
}

static struct sim_stream *find(CUstream handle, bool per_thread, struct sim_context *ctx) {
    if (handle == CU_STREAM_LEGACY || (!handle && !per_thread))
        return ctx ? legacy_of(ctx) : NULL;
    if (handle == CU_STREAM_PER_THREAD || !handle)
        return ctx ? per_thread_of(ctx) : NULL;
    struct sim_stream *s = sim_object_find(handle, SIM_STREAM);
    return s && !s->builtin ? s : NULL;
}

struct sim_stream *sim_stream_begin(struct sim_call *c, const char *api, const char *op,
                                    CUstream handle) {
    sim_begin(c, api, op, SIM_NEED_INIT);
    sim_set_stream(c, handle);
    const char *variant = api + strlen(api) - strlen("_ptsz");
    bool per_thread = strcmp(variant, "_ptsz") == 0 || strcmp(variant, "_ptds") == 0;
    bool builtin = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    struct sim_stream *s = sim_initialised ? find(handle, per_thread, c->ctx) : NULL;
    if (s) {
        sim_set_device(c, s->o.device);
        sim_set_context(c, s->o.ctx);
        if (!c->result && s->o.ctx->sticky) {
            c->result = s->o.ctx->sticky;
            c->scripted = 1;
        }
    } else if (!c->result) {
        CUresult why_not = CUDA_ERROR_INVALID_CONTEXT;
        if (builtin)
            sim_current(&why_not);
        c->result = builtin ? why_not : CUDA_ERROR_INVALID_HANDLE;
    }
    return s;
}

// ---- streams ------------------------------------------------------------------------------------

// One that the program makes takes memory of the device; those that are always there do not.
static CUresult create_in(struct sim_context *ctx, CUstream *out, unsigned flags, int priority) {
    if (!sim_charge(ctx->o.device, sim_param.stream))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_stream *s = new_stream(ctx, flags, priority);
    s->charged = sim_param.stream;
    *out = (CUstream)s;
    return CUDA_SUCCESS;
}

static CUresult create(const char *api, CUstream *out, unsigned flags, int priority) {
    SIM_BEGIN_AS(api, NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !out || flags > CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = create_in(c.ctx, out, flags, priority);
    return sim_end(&c);
}

SIM_FORWARD(cuStreamCreate, (CUstream * phStream, unsigned int Flags), create, phStream, Flags, 0)
SIM_FORWARD(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority),
            create, phStream, flags, priority)

#if CUDA_VERSION >= 12050
CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                        int priority) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = sim_context_find((CUcontext)(void *)greenCtx);
    SIM_REFUSE_IF(&c, !ctx || !ctx->green, CUDA_ERROR_INVALID_CONTEXT);
    SIM_REFUSE_IF(&c, !phStream || !(flags & CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = create_in(ctx, phStream, flags, priority);
    return sim_end(&c);
}
#endif

static void end_stream(void *object) {
    struct sim_stream *s = object;
    sim_capture_drop(s);
    sim_discharge(s->o.device, s->charged);
    sim_object_delete(s);
}

static void end_event(void *object) {
    struct sim_event *e = object;
    sim_discharge(e->o.device, e->charged);
    sim_object_delete(e);
}

static CUresult destroy(const char *api, CUstream handle) {
    SIM_BEGIN_AS(api, NULL, INIT);
    struct sim_stream *s = sim_object_find(handle, SIM_STREAM);
    SIM_REFUSE_IF(&c, !s || s->builtin, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        end_stream(s);
    return sim_end(&c);
}

SIM_FORWARD(cuStreamDestroy, (CUstream hStream), destroy, hStream)
SIM_FORWARD(cuStreamDestroy_v2, (CUstream hStream), destroy, hStream)

void sim_stream_end_context(struct sim_context *ctx) {
    sim_object_each(ctx, SIM_STREAM, end_stream);
    sim_object_each(ctx, SIM_EVENT, end_event);
    ctx->legacy = NULL;
}

static CUresult synchronise(const char *api, CUstream handle) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    if (!c.result)
        c.result = sim_stream_wait(s);
    if (!c.result)
        sim_pool_synchronise(s->o.device);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamSynchronize, (CUstream hStream), synchronise, hStream)

static CUresult query(const char *api, CUstream handle) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    if (!c.result)
        c.result = sim_stream_wait(s);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamQuery, (CUstream hStream), query, hStream)

// ---- what a stream says about itself ------------------------------------------------------------

enum question { FLAGS, PRIORITY, ID, CONTEXT, DEVICE };

static CUresult ask(const char *api, CUstream handle, enum question q, void *out) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    SIM_REFUSE_IF(&c, !out, CUDA_ERROR_INVALID_VALUE);
    if (c.result)
        return sim_end(&c);
    switch (q) {
    case FLAGS:
        *(unsigned *)out = s->flags;
        break;
    case PRIORITY:
        *(int *)out = s->priority;
        break;
    case ID:
        *(unsigned long long *)out = s->o.serial;
        break;
    case CONTEXT:
        *(CUcontext *)out = (CUcontext)s->o.ctx;
        break;
    case DEVICE:
        *(CUdevice *)out = s->o.device;
        break;
    }
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamGetFlags, (CUstream hStream, unsigned int *flags), ask, hStream, FLAGS,
                 flags)
SIM_FORWARD_PTSZ(cuStreamGetPriority, (CUstream hStream, int *priority), ask, hStream, PRIORITY,
                 priority)
SIM_FORWARD_PTSZ(cuStreamGetId, (CUstream hStream, unsigned long long *streamId), ask, hStream, ID,
                 streamId)
SIM_FORWARD_PTSZ(cuStreamGetCtx, (CUstream hStream, CUcontext *pctx), ask, hStream, CONTEXT, pctx)

#if CUDA_VERSION >= 12050
static CUresult context_v2(const char *api, CUstream handle, CUcontext *pCtx,
                           CUgreenCtx *pGreenCtx) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    if (!c.result && pCtx)
        *pCtx = s->o.ctx->green ? NULL : (CUcontext)s->o.ctx;
    if (!c.result && pGreenCtx)
        *pGreenCtx = s->o.ctx->green ? (CUgreenCtx)(void *)s->o.ctx : NULL;
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamGetCtx_v2, (CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx),
                 context_v2, hStream, pCtx, pGreenCtx)
#endif

#if CUDA_VERSION >= 12080
SIM_FORWARD_PTSZ(cuStreamGetDevice, (CUstream hStream, CUdevice *device), ask, hStream, DEVICE,
                 device)
#endif

// ---- events -------------------------------------------------------------------------------------

struct sim_event *sim_event_new(struct sim_context *ctx, unsigned flags) {
    if (!sim_charge(ctx->o.device, sim_param.event))
        return NULL;
    struct sim_event *e = sim_object_new(sizeof *e, SIM_EVENT, ctx, ctx->o.device);
    e->charged = sim_param.event;
    e->flags = flags;
    return e;
}

// An event for other processes cannot keep times.
static bool valid_event(unsigned flags) {
    const unsigned all = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    return !(flags & ~all) &&
           (!(flags & CU_EVENT_INTERPROCESS) || (flags & CU_EVENT_DISABLE_TIMING));
}

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !phEvent || !valid_event(Flags), CUDA_ERROR_INVALID_VALUE);
    struct sim_event *e = c.result ? NULL : sim_event_new(c.ctx, Flags);
    SIM_REFUSE_IF(&c, !e, CUDA_ERROR_OUT_OF_MEMORY);
    if (e)
        *phEvent = (CUevent)e;
    return sim_end(&c);
}

static CUresult destroy_event(const char *api, CUevent handle) {
    SIM_BEGIN_AS(api, NULL, INIT);
    struct sim_event *e = sim_object_find(handle, SIM_EVENT);
    SIM_REFUSE_IF(&c, !e, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        end_event(e);
    return sim_end(&c);
}

SIM_FORWARD(cuEventDestroy, (CUevent hEvent), destroy_event, hEvent)
SIM_FORWARD(cuEventDestroy_v2, (CUevent hEvent), destroy_event, hEvent)

static CUresult record(const char *api, CUevent event, CUstream handle) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    SIM_REFUSE_IF(&c, !e, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result) {
        struct sim_capture *capture = sim_stream_use(s, &c.result);
        if (!c.result) {
            e->capture = capture ? capture->id : 0;
            e->stream = s;
            e->stream_serial = s->o.serial;
        }
    }
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuEventRecord, (CUevent hEvent, CUstream hStream), record, hEvent, hStream)
SIM_FORWARD_PTSZ(cuEventRecordWithFlags, (CUevent hEvent, CUstream hStream, unsigned int flags),
                 record, hEvent, hStream)

static void begin_event(struct sim_call *c, const char *api, CUevent handle) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    struct sim_event *e = sim_object_find(handle, SIM_EVENT);
    SIM_REFUSE_IF(c, !e, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(c, e->o.ctx->sticky, e->o.ctx->sticky);
    SIM_REFUSE_IF(c, e->capture && sim_capture_by_id(e->capture), CUDA_ERROR_CAPTURED_EVENT);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
    struct sim_call c;
    begin_event(&c, __func__, hEvent);
    return sim_end(&c);
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
    struct sim_call c;
    begin_event(&c, __func__, hEvent);
    if (!c.result)
        sim_pool_synchronise(((struct sim_event *)(void *)hEvent)->o.device);
    return sim_end(&c);
}

static CUresult elapsed(const char *api, float *ms, CUevent start, CUevent end) {
    SIM_BEGIN_AS(api, NULL, INIT);
    SIM_REFUSE_IF(&c, !ms, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_object_find(start, SIM_EVENT) || !sim_object_find(end, SIM_EVENT),
                  CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        *ms = 0.01f;
    return sim_end(&c);
}

SIM_FORWARD(cuEventElapsedTime, (float *pMilliseconds, CUevent hStart, CUevent hEnd), elapsed,
            pMilliseconds, hStart, hEnd)

#if CUDA_VERSION >= 12080
SIM_FORWARD(cuEventElapsedTime_v2, (float *pMilliseconds, CUevent hStart, CUevent hEnd), elapsed,
            pMilliseconds, hStart, hEnd)
#endif

static CUresult wait_event(const char *api, CUstream handle, CUevent event) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    SIM_REFUSE_IF(&c, !e, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        c.result = sim_capture_wait(s, e);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamWaitEvent, (CUstream hStream, CUevent hEvent, unsigned int Flags),
                 wait_event, hStream, hEvent)

// ---- host functions: run at once ----------------------------------------------------------------

static CUresult host_function(const char *api, CUstream handle, bool *run) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    if (capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_HOST);
    *run = !c.result && !capture;
    return sim_end(&c);
}

static CUresult launch_host(const char *api, CUstream s, CUhostFn fn, void *data) {
    bool run;
    CUresult result = host_function(api, s, &run);
    if (run && fn)
        fn(data);
    return result;
}

SIM_FORWARD_PTSZ(cuLaunchHostFunc, (CUstream hStream, CUhostFn fn, void *userData), launch_host,
                 hStream, fn, userData)

static CUresult add_callback(const char *api, CUstream s, CUstreamCallback fn, void *data) {
    bool run;
    CUresult result = host_function(api, s, &run);
    if (run && fn)
        fn(s, CUDA_SUCCESS, data);
    return result;
}

SIM_FORWARD_PTSZ(cuStreamAddCallback,
                 (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
                 add_callback, hStream, callback, userData)

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

struct sim_stream *sim_stream_find(CUstream handle, bool per_thread, struct sim_context *ctx) {
    if (handle == CU_STREAM_LEGACY || (!handle && !per_thread))
        return ctx ? legacy_of(ctx) : NULL;
    if (handle == CU_STREAM_PER_THREAD || !handle)
        return ctx ? per_thread_of(ctx) : NULL;
    struct sim_stream *s = sim_object_find(handle, SIM_STREAM);
    return s && !s->builtin ? s : NULL;
}

struct sim_stream *sim_stream_begin(struct sim_call *c, const char *api, const char *op,
                                    CUstream handle, bool per_thread) {
    sim_begin(c, api, op, SIM_NEED_INIT);
    sim_set_stream(c, handle);
    bool builtin = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    struct sim_stream *s = sim_initialised ? sim_stream_find(handle, per_thread, c->ctx) : NULL;
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
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_CONTEXT);
    if (!c.result && (!out || flags > CU_STREAM_NON_BLOCKING))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        c.result = create_in(c.ctx, out, flags, priority);
    return sim_end(&c);
}

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags) {
    return create(__func__, phStream, Flags, 0);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
    return create(__func__, phStream, flags, priority);
}

#if CUDA_VERSION >= 12050
CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                        int priority) {
    SIM_BEGIN(NULL, INIT);
    struct sim_context *ctx = sim_context_find((CUcontext)(void *)greenCtx);
    if (!c.result && (!ctx || !ctx->green))
        c.result = CUDA_ERROR_INVALID_CONTEXT;
    if (!c.result && (!phStream || !(flags & CU_STREAM_NON_BLOCKING)))
        c.result = CUDA_ERROR_INVALID_VALUE;
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
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_INIT);
    struct sim_stream *s = sim_object_find(handle, SIM_STREAM);
    if (!c.result && (!s || s->builtin))
        c.result = CUDA_ERROR_INVALID_HANDLE;
    if (!c.result)
        end_stream(s);
    return sim_end(&c);
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream) {
    return destroy(__func__, hStream);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream) {
    return destroy(__func__, hStream);
}

void sim_stream_end_context(struct sim_context *ctx) {
    sim_object_each(ctx, SIM_STREAM, end_stream);
    sim_object_each(ctx, SIM_EVENT, end_event);
    ctx->legacy = NULL;
}

static CUresult synchronise(const char *api, CUstream handle, bool per_thread) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    if (!c.result)
        c.result = sim_stream_wait(s);
    if (!c.result)
        sim_pool_synchronise(s->o.device);
    return sim_end(&c);
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream) {
    return synchronise(__func__, hStream, false);
}

CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream hStream) {
    return synchronise(__func__, hStream, true);
}

static CUresult query(const char *api, CUstream handle, bool per_thread) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    if (!c.result)
        c.result = sim_stream_wait(s);
    return sim_end(&c);
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream) {
    return query(__func__, hStream, false);
}

CUresult CUDAAPI cuStreamQuery_ptsz(CUstream hStream) {
    return query(__func__, hStream, true);
}

// ---- what a stream says about itself ------------------------------------------------------------

enum question { FLAGS, PRIORITY, ID, CONTEXT, DEVICE };

static CUresult ask(const char *api, CUstream handle, bool per_thread, enum question q, void *out) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    if (!c.result && !out)
        c.result = CUDA_ERROR_INVALID_VALUE;
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

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
    return ask(__func__, hStream, false, FLAGS, flags);
}

CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags) {
    return ask(__func__, hStream, true, FLAGS, flags);
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority) {
    return ask(__func__, hStream, false, PRIORITY, priority);
}

CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream hStream, int *priority) {
    return ask(__func__, hStream, true, PRIORITY, priority);
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
    return ask(__func__, hStream, false, ID, streamId);
}

CUresult CUDAAPI cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId) {
    return ask(__func__, hStream, true, ID, streamId);
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    return ask(__func__, hStream, false, CONTEXT, pctx);
}

CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx) {
    return ask(__func__, hStream, true, CONTEXT, pctx);
}

#if CUDA_VERSION >= 12050
static CUresult context_v2(const char *api, CUstream handle, bool per_thread, CUcontext *pCtx,
                           CUgreenCtx *pGreenCtx) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    if (!c.result && pCtx)
        *pCtx = s->o.ctx->green ? NULL : (CUcontext)s->o.ctx;
    if (!c.result && pGreenCtx)
        *pGreenCtx = s->o.ctx->green ? (CUgreenCtx)(void *)s->o.ctx : NULL;
    return sim_end(&c);
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
    return context_v2(__func__, hStream, false, pCtx, pGreenCtx);
}

CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
    return context_v2(__func__, hStream, true, pCtx, pGreenCtx);
}
#endif

#if CUDA_VERSION >= 12080
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device) {
    return ask(__func__, hStream, false, DEVICE, device);
}

CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device) {
    return ask(__func__, hStream, true, DEVICE, device);
}
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
    if (!c.result && (!phEvent || !valid_event(Flags)))
        c.result = CUDA_ERROR_INVALID_VALUE;
    struct sim_event *e = c.result ? NULL : sim_event_new(c.ctx, Flags);
    if (!c.result && !e)
        c.result = CUDA_ERROR_OUT_OF_MEMORY;
    if (e)
        *phEvent = (CUevent)e;
    return sim_end(&c);
}

static CUresult destroy_event(const char *api, CUevent handle) {
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_INIT);
    struct sim_event *e = sim_object_find(handle, SIM_EVENT);
    if (!c.result && !e)
        c.result = CUDA_ERROR_INVALID_HANDLE;
    if (!c.result)
        end_event(e);
    return sim_end(&c);
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent) {
    return destroy_event(__func__, hEvent);
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent) {
    return destroy_event(__func__, hEvent);
}

static CUresult record(const char *api, CUevent event, CUstream handle, bool per_thread) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    if (!c.result && !e)
        c.result = CUDA_ERROR_INVALID_HANDLE;
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

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
    return record(__func__, hEvent, hStream, false);
}

CUresult CUDAAPI cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
    return record(__func__, hEvent, hStream, true);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    (void)flags;
    return record(__func__, hEvent, hStream, false);
}

CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
    (void)flags;
    return record(__func__, hEvent, hStream, true);
}

static void begin_event(struct sim_call *c, const char *api, CUevent handle) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    struct sim_event *e = sim_object_find(handle, SIM_EVENT);
    if (!c->result && !e)
        c->result = CUDA_ERROR_INVALID_HANDLE;
    if (!c->result && e->o.ctx->sticky)
        c->result = e->o.ctx->sticky;
    if (!c->result && e->capture && sim_capture_by_id(e->capture))
        c->result = CUDA_ERROR_CAPTURED_EVENT;
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
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_INIT);
    if (!c.result && !ms)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && (!sim_object_find(start, SIM_EVENT) || !sim_object_find(end, SIM_EVENT)))
        c.result = CUDA_ERROR_INVALID_HANDLE;
    if (!c.result)
        *ms = 0.01f;
    return sim_end(&c);
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    return elapsed(__func__, pMilliseconds, hStart, hEnd);
}

#if CUDA_VERSION >= 12080
CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    return elapsed(__func__, pMilliseconds, hStart, hEnd);
}
#endif

static CUresult wait_event(const char *api, CUstream handle, CUevent event, bool per_thread) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    struct sim_event *e = sim_object_find(event, SIM_EVENT);
    if (!c.result && !e)
        c.result = CUDA_ERROR_INVALID_HANDLE;
    if (!c.result)
        c.result = sim_capture_wait(s, e);
    return sim_end(&c);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    (void)Flags;
    return wait_event(__func__, hStream, hEvent, false);
}

CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    (void)Flags;
    return wait_event(__func__, hStream, hEvent, true);
}

// ---- host functions: run at once
// ------------------------------------------------------------------

static CUresult host_function(const char *api, CUstream handle, bool per_thread, bool *run) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle, per_thread);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    if (capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_HOST);
    *run = !c.result && !capture;
    return sim_end(&c);
}

static CUresult launch_host(const char *api, CUstream s, bool per_thread, CUhostFn fn, void *data) {
    bool run;
    CUresult result = host_function(api, s, per_thread, &run);
    if (run && fn)
        fn(data);
    return result;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
    return launch_host(__func__, hStream, false, fn, userData);
}

CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData) {
    return launch_host(__func__, hStream, true, fn, userData);
}

static CUresult add_callback(const char *api, CUstream s, bool per_thread, CUstreamCallback fn,
                             void *data) {
    bool run;
    CUresult result = host_function(api, s, per_thread, &run);
    if (run && fn)
        fn(s, CUDA_SUCCESS, data);
    return result;
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                     unsigned int flags) {
    (void)flags;
    return add_callback(__func__, hStream, false, callback, userData);
}

CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback,
                                          void *userData, unsigned int flags) {
    (void)flags;
    return add_callback(__func__, hStream, true, callback, userData);
}

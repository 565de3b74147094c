// SPDX-License-Identifier: Apache-2.0
// Stream capture: what is recorded instead of done, and what is forbidden meanwhile (cuda.h:
// cuThreadExchangeStreamCaptureMode, cuStreamBeginCapture).
#include "stream.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sim_capture *captures;
static uint64_t ids;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static bool mine(const struct sim_capture *x) {
    return x->thread == (pid_t)syscall(SYS_gettid);
}

// ---- what is forbidden --------------------------------------------------------------------------

static bool forbids(const struct sim_capture *x) {
    bool my_strict_one = mine(x) && x->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    switch (thread_mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
        return my_strict_one || x->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
        return my_strict_one;
    default:
        return false;
    }
}

CUresult sim_capture_unsafe(void) {
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *x = captures; x; x = x->next)
        if (forbids(x)) {
            x->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

bool sim_capture_running(void) {
    for (struct sim_capture *x = captures; x; x = x->next)
        if (x->mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mine(x))
            return true;
    return false;
}

// The legacy stream waits for all blocking streams, so it cannot be used beside their captures.
static CUresult use_legacy(struct sim_stream *s) {
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *x = captures; x; x = x->next) {
        if (x->origin->o.ctx != s->o.ctx || x->origin->flags & CU_STREAM_NON_BLOCKING)
            continue;
        x->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return result;
}

struct sim_capture *sim_stream_use(struct sim_stream *s, CUresult *result) {
    if (s->capture && s->capture->invalid)
        *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!s->capture && s->o.ctx->legacy == s)
        *result = use_legacy(s);
    s->joined = false;
    return *result ? NULL : s->capture;
}

CUresult sim_stream_wait(struct sim_stream *s) {
    CUresult result = CUDA_SUCCESS;
    if (s->capture) {
        s->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    sim_stream_use(s, &result);
    return result;
}

// ---- forking and joining by events --------------------------------------------------------------

struct sim_capture *sim_capture_by_id(uint64_t id) {
    struct sim_capture *x = captures;
    while (x && x->id != id)
        x = x->next;
    return x;
}

CUresult sim_capture_wait(struct sim_stream *s, struct sim_event *e) {
    struct sim_capture *theirs = e->capture ? sim_capture_by_id(e->capture) : NULL;
    if (!theirs) {
        if (!s->capture)
            return CUDA_SUCCESS;
        s->capture->invalid = true; // a dependency on work outside of the capture
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (s->capture && s->capture != theirs) {
        s->capture->invalid = theirs->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    s->capture = theirs;
    struct sim_stream *from = sim_object_find(e->stream, SIM_STREAM);
    if (from && from->o.serial == e->stream_serial && from != s)
        from->joined = true;
    return CUDA_SUCCESS;
}

// ---- beginning and ending -----------------------------------------------------------------------

static CUresult begin(const char *api, CUstream handle, CUstreamCaptureMode mode, CUgraph to) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    struct sim_graph *graph = sim_object_find(to, SIM_GRAPH);
    SIM_REFUSE_IF(&c, (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (to && !graph),
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, s->o.ctx->legacy == s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    SIM_REFUSE_IF(&c, s->capture, CUDA_ERROR_ILLEGAL_STATE);
    if (!c.result) {
        struct sim_capture *x = calloc(1, sizeof *x);
        if (!x)
            abort();
        x->id = ++ids;
        x->graph = graph ? graph : sim_graph_new(s->o.ctx);
        x->own_graph = !graph;
        x->origin = s;
        x->mode = mode;
        x->thread = (pid_t)syscall(SYS_gettid);
        x->next = captures;
        captures = s->capture = x;
    }
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamBeginCapture, (CUstream hStream), begin, hStream,
                 CU_STREAM_CAPTURE_MODE_GLOBAL, NULL)
SIM_FORWARD_PTSZ(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), begin,
                 hStream, mode, NULL)

#if CUDA_VERSION >= 12030
static CUresult begin_to(const char *api, CUstream s, CUstreamCaptureMode mode, CUgraph graph) {
    if (graph)
        return begin(api, s, mode, graph);
    SIM_BEGIN_AS(api, NULL, INIT);
    if (!c.result)
        c.result = CUDA_ERROR_INVALID_VALUE;
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamBeginCaptureToGraph,
                 (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                  CUstreamCaptureMode mode),
                 begin_to, hStream, mode, hGraph)
#endif

static struct sim_capture *leaving;
static bool unjoined;

static void leave(void *object) {
    struct sim_stream *s = object;
    if (s->capture != leaving)
        return;
    if (s != leaving->origin && !s->joined)
        unjoined = true;
    s->capture = NULL;
    s->joined = false;
}

// Takes every stream out of the capture; true if all that forked from it had joined it again.
static bool finish(struct sim_capture *x) {
    leaving = x;
    unjoined = false;
    sim_object_each(NULL, SIM_STREAM, leave);
    struct sim_capture **link = &captures;
    while (*link != x)
        link = &(*link)->next;
    *link = x->next;
    return !unjoined;
}

static void forget(struct sim_capture *x, bool keep_graph) {
    if (x->own_graph && !keep_graph)
        sim_graph_delete(x->graph);
    free(x);
}

static CUresult end(const char *api, CUstream handle, CUgraph *graph) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    struct sim_capture *x = s ? s->capture : NULL;
    SIM_REFUSE_IF(&c, !graph, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !x, CUDA_ERROR_ILLEGAL_STATE);
    SIM_REFUSE_IF(&c, x->origin != s, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    SIM_REFUSE_IF(&c, x->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !mine(x),
                  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (!c.result) {
        bool all_joined = finish(x);
        if (x->invalid)
            c.result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else if (!all_joined)
            c.result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        *graph = c.result ? NULL : (CUgraph)x->graph;
        forget(x, c.result == CUDA_SUCCESS);
    }
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamEndCapture, (CUstream hStream, CUgraph *phGraph), end, hStream, phGraph)

void sim_capture_drop(struct sim_stream *s) {
    struct sim_capture *x = s->capture;
    if (!x)
        return;
    if (x->origin != s) {
        s->capture = NULL;
        x->invalid = true;
        return;
    }
    finish(x);
    forget(x, false);
}

// ---- questions ----------------------------------------------------------------------------------

static CUstreamCaptureStatus status(const struct sim_stream *s) {
    if (!s->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult ask(const char *api, CUstream handle, CUstreamCaptureStatus *status_out,
                    cuuint64_t *id, CUgraph *graph) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    SIM_REFUSE_IF(&c, !status_out, CUDA_ERROR_INVALID_VALUE);
    if (!c.result && !s->capture && s->o.ctx->legacy == s)
        for (struct sim_capture *x = captures; x && !c.result; x = x->next)
            if (x->origin->o.ctx == s->o.ctx && !(x->origin->flags & CU_STREAM_NON_BLOCKING))
                c.result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; // asking does no harm to it
    if (!c.result) {
        *status_out = status(s);
        if (id && s->capture)
            *id = s->capture->id;
        if (graph && s->capture)
            *graph = (CUgraph)s->capture->graph;
    }
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamIsCapturing, (CUstream hStream, CUstreamCaptureStatus *captureStatus), ask,
                 hStream, captureStatus, NULL, NULL)
SIM_FORWARD_PTSZ(cuStreamGetCaptureInfo,
                 (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
                 ask, hStream, captureStatus_out, id_out, NULL)

// Dependencies are not kept: none are reported, and none of their data.
static CUresult ask_all(const char *api, CUstream handle, CUstreamCaptureStatus *status_out,
                        cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                        const void **data, size_t *count) {
    if (dependencies)
        *dependencies = NULL;
    if (data)
        *data = NULL;
    if (count)
        *count = 0;
    return ask(api, handle, status_out, id, graph);
}

SIM_FORWARD_PTSZ(cuStreamGetCaptureInfo_v2,
                 (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                  CUgraph *graph_out, const CUgraphNode **dependencies_out,
                  size_t *numDependencies_out),
                 ask_all, hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                 numDependencies_out)
#if CUDA_VERSION >= 12030
SIM_FORWARD_PTSZ(cuStreamGetCaptureInfo_v3,
                 (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                  CUgraph *graph_out, const CUgraphNode **dependencies_out,
                  const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
                 ask_all, hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                 (const void **)edgeData_out, numDependencies_out)
#endif

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        CUstreamCaptureMode was = thread_mode;
        thread_mode = *mode;
        *mode = was;
    }
    return sim_end(&c);
}

// ---- dependencies of what is captured next: checked, and not kept, as graphs have no edges here
// -------

static CUresult update(const char *api, CUstream handle, const CUgraphNode *nodes, size_t count,
                       unsigned flags) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, handle);
    SIM_REFUSE_IF(&c, flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes),
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, status(s) != CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_ERROR_ILLEGAL_STATE);
    for (size_t i = 0; i < count && !c.result; i++)
        if (!sim_object_find(nodes[i], SIM_NODE))
            c.result = CUDA_ERROR_INVALID_VALUE;
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamUpdateCaptureDependencies,
                 (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
                  unsigned int flags),
                 update, hStream, dependencies, numDependencies, flags)
SIM_FORWARD_PTSZ(cuStreamUpdateCaptureDependencies_v2,
                 (CUstream hStream, CUgraphNode *dependencies,
                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                  unsigned int flags),
                 update, hStream, dependencies, numDependencies, flags)

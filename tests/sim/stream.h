// SPDX-License-Identifier: Apache-2.0
// Streams, events and captures, as stream.c and capture.c share them with those that enqueue work.
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim.h"

struct sim_capture {
    uint64_t id;
    struct sim_graph *graph;
    struct sim_stream *origin;
    CUstreamCaptureMode mode;
    pid_t thread; // that began it
    bool invalid;
    bool own_graph; // not one that the program gave to cuStreamBeginCaptureToGraph
    struct sim_capture *next;
};

struct sim_stream {
    struct sim_object o;
    unsigned flags;
    int priority;
    bool builtin; // the legacy stream or a thread's own: no handle of the program's
    bool joined;  // forked into a capture and waited for again
    struct sim_capture *capture;
    uint64_t charged;
};

struct sim_event {
    struct sim_object o;
    uint64_t charged;
    uint64_t capture; // id of the capture in which it was recorded last, 0: none
    struct sim_stream *stream;
    uint64_t stream_serial;
    unsigned flags;
};

// NULL: the device has no room for one.
struct sim_event *sim_event_new(struct sim_context *ctx, unsigned flags);

// sim_begin() for a call on a stream (0, legacy, per-thread and created ones), which need not be of
// the current context. 0 is the thread's own where the function's name ends with _ptsz or _ptds.
struct sim_stream *sim_stream_begin(struct sim_call *c, const char *api, const char *op,
                                    CUstream handle);

// For a call that enqueues work: the stream's capture or NULL; sets *result when it is not allowed
// (a capture that is invalid, or that the legacy stream would have to wait for).
struct sim_capture *sim_stream_use(struct sim_stream *s, CUresult *result);
CUresult sim_stream_wait(struct sim_stream *s); // for a call that waits for the stream
CUresult sim_capture_wait(struct sim_stream *s, struct sim_event *e);
void sim_capture_drop(struct sim_stream *s); // the stream ends
struct sim_capture *sim_capture_by_id(uint64_t id);

#endif

// SPDX-License-Identifier: Apache-2.0
// The simulated driver's own state and the small interfaces between its files.
#ifndef SIM_H
#define SIM_H

#define __CUDA_API_VERSION_INTERNAL // declares every ABI variant, so that the compiler checks each
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "param.h"
#include "shared.h"

#define SIM_EXPORT __attribute__((visibility("default")))

// ---- one call of the driver (call.c) -------------------------------------------------------

enum sim_need { SIM_NEED_NOTHING, SIM_NEED_INIT, SIM_NEED_CONTEXT };

enum sim_has {
    SIM_HAS_DEVICE = 1,
    SIM_HAS_CONTEXT = 2,
    SIM_HAS_PTR = 4,
    SIM_HAS_BYTES = 8,
    SIM_HAS_HANDLE = 16,
    SIM_HAS_POOL = 32,
    SIM_HAS_STREAM = 64,
    SIM_HAS_OFFSET = 128,
};

struct sim_context;
struct sim_stream;

struct sim_call {
    const char *api;
    const char *op; // NULL: not in the ledger
    CUresult result;
    unsigned has;
    int device;
    int depth;
    int scripted; // the result comes from SIM_FAIL or from a sticky error
    uint64_t context, ptr, bytes, handle, pool, stream, offset;
    struct sim_context *ctx; // the calling thread's current context, when it is valid
};

// Takes the driver's lock; sim_end() gives it back. Between the two c->result says whether to do
// the work: a scripted failure or a missing context has set it already.
void sim_begin(struct sim_call *c, const char *api, const char *op, enum sim_need need);
CUresult sim_end(struct sim_call *c);

#define SIM_BEGIN(op, need) SIM_BEGIN_AS(__func__, op, need)
#define SIM_BEGIN_AS(api, op, need) \
    struct sim_call c;              \
    sim_begin(&c, api, op, SIM_NEED_##need)

// The first reason against a call is its result: after it no condition is looked at.
#define SIM_REFUSE_IF(call, condition, why) \
    do {                                    \
        if (!(call)->result && (condition)) \
            (call)->result = (why);         \
    } while (0)

// Defines an exported function by one that does the work of several: body(SYMBOL, ...).
#define SIM_FORWARD(symbol, params, body, ...) \
    CUresult CUDAAPI symbol params {           \
        return body(__func__, __VA_ARGS__);    \
    }
// It and its variant for the per-thread default stream, which sim_stream_begin() knows by its name.
#define SIM_FORWARD_PTSZ(symbol, params, body, ...) \
    SIM_FORWARD(symbol, params, body, __VA_ARGS__)  \
    SIM_FORWARD(symbol##_ptsz, params, body, __VA_ARGS__)

static inline void sim_set_device(struct sim_call *c, int v) {
    c->device = v;
    c->has |= SIM_HAS_DEVICE;
}
static inline void sim_set_context(struct sim_call *c, const void *v) {
    c->context = (uint64_t)(uintptr_t)v;
    c->has |= SIM_HAS_CONTEXT;
}
static inline void sim_set_ptr(struct sim_call *c, uint64_t v) {
    c->ptr = v;
    c->has |= SIM_HAS_PTR;
}
static inline void sim_set_bytes(struct sim_call *c, uint64_t v) {
    c->bytes = v;
    c->has |= SIM_HAS_BYTES;
}
static inline void sim_set_handle(struct sim_call *c, uint64_t v) {
    c->handle = v;
    c->has |= SIM_HAS_HANDLE;
}
static inline void sim_set_object(struct sim_call *c, const void *v) {
    sim_set_handle(c, (uint64_t)(uintptr_t)v);
}
static inline void sim_set_pool(struct sim_call *c, const void *v) {
    c->pool = (uint64_t)(uintptr_t)v;
    c->has |= SIM_HAS_POOL;
}
static inline void sim_set_stream(struct sim_call *c, const void *v) {
    c->stream = (uint64_t)(uintptr_t)v;
    c->has |= SIM_HAS_STREAM;
}
static inline void sim_set_offset(struct sim_call *c, uint64_t v) {
    c->offset = v;
    c->has |= SIM_HAS_OFFSET;
}

extern _Thread_local int sim_depth; // >0: inside a call that the driver makes of itself
extern bool sim_initialised;
CUresult sim_cu_init(void);    // what cuInit does: not in a child of a process that had called it
void sim_inject(void);         // what cuInit does behind that: outside the lock
void sim_reentrant_call(void); // SIM_REENTRANT: the driver calls its own exports

// ---- the ledger and the log (ledger.c) -----------------------------------------------------

void sim_ledger_write(const struct sim_call *c);
void sim_ledger_path(const char *pattern, char *path, size_t size); // %p becomes the pid
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- the ledger that survives SIGKILL (ledger_map.c), under the driver's lock -------------------

void sim_map_enter(const struct sim_call *c);
void sim_map_leave(const struct sim_call *c);

// ---- scripted failures (fail.c): the result that SIM_FAIL prescribes for this call, or 0 ------

CUresult sim_fail(const char *api);
bool sim_is_sticky(CUresult result);

// ---- handles (object.c): a handle is an address; only those given out and not taken back count -

enum sim_kind {
    SIM_CONTEXT,
    SIM_STREAM,
    SIM_EVENT,
    SIM_POOL,
    SIM_PHYSICAL,
    SIM_ARRAY,
    SIM_MIPMAP,
    SIM_EXTERNAL,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_MODULE,
    SIM_LIBRARY,
    SIM_FUNCTION,
    SIM_KERNEL,
    SIM_LINK,
    SIM_GREEN,
    SIM_GRAPHICS,
    SIM_CALLBACK,
    SIM_DESCRIPTOR,
    SIM_GLOBAL,
    SIM_USER_OBJECT,
};

struct sim_object {
    enum sim_kind kind;
    uint64_t serial; // never used twice, where an address may be
    int device;
    struct sim_context *ctx; // the context that it ends with, or NULL
    struct sim_object *next, *prev;
};

void *sim_object_new(size_t size, enum sim_kind kind, struct sim_context *ctx, int device);
void *sim_object_find(const void *handle, enum sim_kind kind); // NULL: not one of ours
void sim_object_delete(void *object);
// Calls end(object) for every object of the kind in the context (NULL: in any).
void sim_object_each(struct sim_context *ctx, enum sim_kind kind, void (*end)(void *object));

// ---- address space (space.c) ---------------------------------------------------------------

struct sim_extent {
    uint64_t base, size;
};
struct sim_extents { // free ranges, sorted, never touching
    struct sim_extent *v;
    size_t n, capacity;
};

bool sim_extents_take(struct sim_extents *e, uint64_t size, uint64_t align, uint64_t *base);
bool sim_extents_take_at(struct sim_extents *e, uint64_t base, uint64_t size);
void sim_extents_give(struct sim_extents *e, uint64_t base, uint64_t size);

void sim_space_open(void); // by cuInit, as real drivers do
bool sim_space_take(uint64_t size, uint64_t align,
                    uint64_t *base); // size, base: multiples of 2 MiB
bool sim_space_take_at(uint64_t base, uint64_t size);
void sim_space_give(uint64_t base, uint64_t size);
bool sim_space_backed(uint64_t base, uint64_t size);  // readable and writable by the host
bool sim_space_touches(uint64_t base, uint64_t size); // some of it is device address space

enum sim_range_kind {
    SIM_RANGE_DEVICE,
    SIM_RANGE_MANAGED,
    SIM_RANGE_POOL,
    SIM_RANGE_GRAPH,
    SIM_RANGE_HOST,
    SIM_RANGE_REGISTERED,
    SIM_RANGE_RESERVED,
    SIM_RANGE_IPC,
    SIM_RANGE_EXTERNAL,
    SIM_RANGE_POOL_IMPORT,
    SIM_RANGE_GLOBAL,
    SIM_RANGE_ARRAY, // has an address, but nobody is told
};

struct sim_pool;
struct sim_range { // everything that has an address
    uint64_t base, size;
    uint64_t requested;
    uint64_t space; // size of the address range behind it, 0: part of a chunk or pool block
    uint64_t charged;
    uint64_t serial;
    enum sim_range_kind kind;
    int device;
    int resident; // managed: the device that it is charged to
    unsigned flags;
    unsigned references; // IPC: how often opened
    uint64_t export_key; // IPC: by what other processes, or the exporter, know it
    bool in_use;         // graph: allocated by a launch and not yet freed
    struct sim_context *ctx;
    struct sim_pool *pool;
    void *owner; // what gave it: an external memory, a graph, an IPC handle's copy
    struct sim_range *next, *prev;
};

struct sim_range *sim_range_new(enum sim_range_kind kind, uint64_t base, uint64_t size);
struct sim_range *sim_range_at(uint64_t address); // the range that holds the address
struct sim_range *sim_range_overlap(uint64_t base, uint64_t size);
void sim_range_delete(struct sim_range *r);
extern struct sim_range *sim_ranges; // all of them

static inline uint64_t sim_round_up(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

// ---- devices and contexts (device.c, context.c) ----------------------------------------------

#define SIM_LIMITS 16

struct sim_context {
    struct sim_object o;
    bool primary, active, green;
    unsigned references, flags, api_version;
    uint64_t charged;
    size_t limits[SIM_LIMITS];
    uint64_t limit_charge;
    CUresult sticky;
    struct sim_stream *legacy;
};

struct sim_device {
    struct sim_context *primary;
    struct sim_pool *default_pool, *current_pool, *managed_pool;
    struct sim_pool *current_managed_pool;
    uint64_t graph_reserved, graph_reserved_high, graph_used, graph_used_high;
};

extern struct sim_device sim_devices[SIM_MAX_DEVICES];

bool sim_device_valid(int device);
int sim_device_attribute(CUdevice_attribute attribute, int device); // 0 for what it does not have
// Whose the things are that are made while the context is current: a green context has none.
static inline struct sim_context *sim_owner(struct sim_context *ctx) {
    return ctx->green ? sim_devices[ctx->o.device].primary : ctx;
}
struct sim_context *sim_current(CUresult *why_not);
struct sim_context *sim_context_find(CUcontext handle);
CUresult sim_primary_retain(int device, bool *created, struct sim_context **ctx);
void sim_primary_release(struct sim_context *ctx, bool *destroyed);

// ---- what ends with a context, each in its own file ---------------------------------------------

void sim_memory_end_context(struct sim_context *ctx);
void sim_host_end_context(struct sim_context *ctx);
void sim_array_end_context(struct sim_context *ctx);
void sim_module_end_context(struct sim_context *ctx);
void sim_stream_end_context(struct sim_context *ctx);
void sim_pool_reset_device(int device);
void sim_graph_reset_device(int device);

// ---- device memory (memory.c) ----------------------------------------------------------------

// Address and charge for one allocation; fills r->space and r->charged by the chunk rules.
struct sim_range *sim_memory_take(int device, uint64_t bytes, CUresult *why_not);
void sim_memory_give(struct sim_range *r);
// The whole of a free: finds what the address is and ends it. CUDA_ERROR_INVALID_VALUE if nothing.
CUresult sim_memory_free(uint64_t address, struct sim_call *c);

// ---- pools (pool.c) --------------------------------------------------------------------------

CUresult sim_pool_free(struct sim_range *r);
void sim_pool_synchronise(int device); // what a stream, event or context synchronise gives back
struct sim_pool *sim_pool_find(CUmemoryPool handle);

// ---- capture (capture.c; the rest is in stream.h) -----------------------------------------------

// For a call that is unsafe while a capture is under way (cuMemAlloc): 0, or the error.
CUresult sim_capture_unsafe(void);
// Whether this thread has begun a capture that has not ended, or any thread one of global mode.
bool sim_capture_running(void);

struct sim_graph;
// ---- graphs (graph.c) ------------------------------------------------------------------------

struct sim_graph *sim_graph_new(struct sim_context *ctx);
void sim_graph_delete(struct sim_graph *graph);
CUresult sim_graph_capture_alloc(struct sim_graph *graph, int device, size_t bytes, CUdeviceptr *p);
CUresult sim_graph_capture_free(struct sim_graph *graph, CUdeviceptr p);
void sim_graph_capture_other(struct sim_graph *graph, CUgraphNodeType type);
CUresult sim_graph_free(struct sim_range *r); // cuMemFree(Async) of what a launch allocated

// ---- user objects (user_object.c): references that graphs and their executables hold ------------

struct sim_held { // by one graph or executable
    struct sim_user_object *object;
    unsigned count;
    struct sim_held *next;
};
void sim_held_add(struct sim_held **list, const struct sim_held *from); // all that the other holds
void sim_held_drop(struct sim_held **list);
// Those whose last reference has gone; their destructors run without the driver's lock.
struct sim_user_object *sim_user_objects_take_dead(void);
void sim_user_objects_destroy(struct sim_user_object *dead);
struct sim_held **sim_graph_holds(CUgraph graph); // NULL: no graph

// ---- VMM (vmm.c) -----------------------------------------------------------------------------

// True when [base, base+size) of the device's address space is mapped memory.
bool sim_vmm_mapped(uint64_t base, uint64_t size, int *device);
void sim_vmm_collect(void); // gives back what only exported descriptors, now closed, kept alive

// ---- modules (module.c) ------------------------------------------------------------------------

// Loads the function's module into the context, if that has not happened yet (lazy loading).
CUresult sim_function_load(CUfunction function, struct sim_context *ctx);

// cudaGL.h needs GL's headers, so its prototype is repeated here (external.c).
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *out, unsigned buffer,
                                            unsigned flags);

// cudaProfiler.h is in a package of its own, so its prototypes are repeated here (context.c).
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

// The headers declare this variant by a macro only (capture.c).
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *nodes,
                                                           const CUgraphEdgeData *data,
                                                           size_t count, unsigned flags);

// ---- the 32-bit ABIs of CUDA 2 (old_abi.c) ------------------------------------------------------

CUresult sim_old_abi(const char *api);

#endif

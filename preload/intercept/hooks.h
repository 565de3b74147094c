// SPDX-License-Identifier: Apache-2.0
// What derives from hooks.def, and the scope that a hook's body runs in.
//
// A driver row has two entries: the exported wrapper, which goes on to the next definition in the
// process (RTLD_NEXT, so that interposers behind us stay in the chain), and a hidden one, which is
// handed out by dlsym and cuGetProcAddress and goes on to the very pointer that the real resolver
// returned. Both run the row's body, ct_on_SYMBOL(real, parameters...).
#ifndef CT_HOOKS_H
#define CT_HOOKS_H

#include "intercept/cuda_api.h"

#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "write/info_table.h"

#define CT_ARGS(...) __VA_ARGS__

enum ct_hook_id {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) CT_ID_##symbol,
#include "intercept/hooks.def"
    CT_HOOKS
};

enum ct_rthook_id {
#define CT_RTHOOK(symbol, params, args, effect) CT_RTID_##symbol,
#include "intercept/hooks.def"
    CT_RTHOOKS
};

// Function types, and the bodies.
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    typedef CUresult CUDAAPI ct_fn_##symbol params;
#include "intercept/hooks.def"
#define CT_RTHOOK(symbol, params, args, effect) typedef cudaError_t CUDARTAPI ct_fn_##symbol params;
#include "intercept/hooks.def"

#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params);
#define CT_HOOK0(symbol, base, abi, ptsz) CUresult ct_on_##symbol(ct_fn_##symbol *real);
#include "intercept/hooks.def"

// What a c10::Device is, which is passed by value in one register.
struct ct_torch_device {
    int8_t type, index;
};
enum { CT_TORCH_CUDA = 1 };

enum ct_torch_id {
#define CT_TORCH(symbol, params, args, effect) CT_TORCH_ID_##symbol,
#include "intercept/hooks.def"
    CT_TORCH_HOOKS
};

#define CT_TORCH(symbol, params, args, effect) \
    typedef void ct_fn_##symbol params;        \
    void symbol params;
#include "intercept/hooks.def"

// Static facts of a driver row. `exported` is the wrapper that programs find by name, `handed_out`
// the entry for resolvers.
struct ct_hook {
    const char *symbol, *base;
    int abi, ptsz;
    void *exported, *handed_out;
};
extern const struct ct_hook ct_hook_table[CT_HOOKS];

// Name id (ct_name_intern) of a row's symbol.
uint32_t ct_hook_table_name(enum ct_hook_id id);

// ---- resolve.c ------------------------------------------------------------------------------

// The definition behind our exported wrapper, or NULL if the process has none.
void *ct_next_function(enum ct_hook_id id);

// What a resolver's answer is replaced by: our entry for it, or the answer itself. `version` as
// passed to cuGetProcAddress (0: not known), `flags` as CUdriverProcAddress_flags.
void *ct_resolve_substitute(const char *base, int version, uint64_t flags, void *answer);

// The pointer to which the handed-out entry goes on.
void *ct_next_resolved(enum ct_hook_id id);

// A driver function for our own use, around our own hooks. NULL where the driver lacks it.
void *ct_next_driver_symbol(const char *symbol);

// Real dlsym, for this library's own look-ups.
void *ct_real_dlsym_call(void *handle, const char *name);

// Whether an address lies in this library.
int ct_is_own(const void *address);

// Publishes which look-ups were seen and which names had no hook (INFO way.resolved.*, unwrapped.*).
void ct_resolve_publish_info(void);

// ---- inside PyTorch (torch.c) ---------------------------------------------------------------

// Publishes what is known of PyTorch. The writer calls it through the source of INFO.
void ct_torch_publish_info(void);

// ---- the scope of a driver call (call.c) ----------------------------------------------------

// The body of a hook that takes memory:
//     struct ct_hook_call call;
//     if (!ct_hook_enter_timed(&call, CT_ID_x, CT_OP_y))
//         return real(...);
//     const CUresult r = real(...);
//     ...fill call.event from what is known after the call...
//     ct_hook_alloc_exit(&call, r);
//     return r;
// and of one that gives back: ct_hook_enter, fill call.event, ct_hook_free_enter, real, ct_hook_free_exit.
// errno is what the real call left.
struct ct_hook_call {
    struct ct_event event;
    uint64_t start_ns; // 0: the call is not timed
    enum ct_hook_id hook;
    int saved_errno;
    int *errno_at; // the thread's, whose address takes a call
};

// Enters the scope: 1, and the event has op and api; or 0 if the call is not to be recorded
// (tracing is off, or it is made inside another recorded driver call, by the driver or by an
// interposer: one allocation is one event). After 0, nothing else of the scope may be called.
int ct_hook_enter(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op);
// The same, and most calls of this hook are timed (call.c says which are not).
int ct_hook_enter_timed(struct ct_hook_call *call, enum ct_hook_id id, enum ct_op op);

// Fills result, time, duration, stack, and context and device if absent; publishes; leaves.
// A refused allocation carries the device's free memory.
void ct_hook_alloc_exit(struct ct_hook_call *call, CUresult result);

// ct_hook_free_enter publishes the event before the real call, so that no other thread's allocation at the
// same address can come first; ct_hook_free_exit amends it after a failure (or where the duration is sampled)
// and leaves.
void ct_hook_free_enter(struct ct_hook_call *call);
void ct_hook_free_exit(struct ct_hook_call *call, CUresult result);

// Around a real call that changes how much memory is free without saying so (a module load, a graph
// instantiation): ct_hook_measure_enter before it, ct_hook_measure_exit after it instead of ct_hook_alloc_exit.
void ct_hook_measure_enter(struct ct_hook_call *call);
void ct_hook_measure_exit(struct ct_hook_call *call, CUresult result);

// Leaves the scope without an event.
void ct_hook_leave(struct ct_hook_call *call);

// A memory-sample of the current device beside whatever just happened, at most once per interval and device
// unless forced; never while a stream of the process is capturing. Inside the scope only.
void ct_mem_info_sample(struct ct_hook_call *call, int force);

// The same with figures that the host has just asked for.
void ct_mem_info_sample_given(struct ct_hook_call *call, size_t free_bytes, size_t total_bytes);

// Free and total bytes of the current context's device; 0 if that is not known or not allowed now.
int ct_mem_info_read(size_t *free_bytes, size_t *total_bytes);

// ---- the runtime above (runtime.c) ----------------------------------------------------------

// Name of the runtime function that this thread is inside of, 0 if none.
uint32_t ct_runtime_scope_api(void);

// Told by every driver call, so that the runtime wrapper around it knows that it was seen.
void ct_runtime_scope_count(enum ct_op op);

// ---- devices and contexts (devices_cuda.c) --------------------------------------------------

// The current context and its device: 1, or 0 if there is none.
int ct_context_current(uint64_t *context, int *device);
void ct_context_created(uint64_t context, int device);
void ct_context_destroyed(uint64_t context);
int ct_context_device(uint64_t context); // or CT_NO_DEVICE_ORDINAL
#define CT_NO_DEVICE_ORDINAL (-1)
#define CT_MAX_ORDINALS 64

// The primary context of a device as last retained, 0 if unknown.
uint64_t ct_context_primary(int device);
void ct_context_set_primary(int device, uint64_t context);

// Tells the recorder what the device is; the first time it is seen.
void ct_device_info_publish(int device);

// ---- stream capture (hooks_graph.c) ---------------------------------------------------------

// Whether any stream of the process is capturing (then the driver must not be asked anything).
int ct_stream_any_capturing(void);
// Whether this stream is; asks the driver only if any stream is.
int ct_stream_is_capturing(CUstream stream, int ptsz);

// ---- arrays (hooks_array.c) -----------------------------------------------------------------

// What the levels of a mipmapped array need together, by its descriptor.
uint64_t ct_array_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);

// ---- pools (hooks_pool.c) -------------------------------------------------------------------

// Publishes a pool-sample of each pool that may hold more or less than when it was last sampled: memory comes
// back to the device at a synchronise, with no call that frees anything. Inside a scope only.
void ct_sample_pools(struct ct_hook_call *call);

#endif

// SPDX-License-Identifier: Apache-2.0
// The rows of hooks.def as CUPTI knows them: the id of each function's call-backs, and its body,
// called with the parameters that a call-back points to.
#define _GNU_SOURCE
#include "intercept/cupti_parts.h"

#ifdef CT_WITH_CUPTI

#include <errno.h>

#include "intercept/audit.h"
#include "intercept/passes.h"
#include "stack/capture.h"
#include "stack/enclosing.h"
#include "stack/own_code.h"
#include "store/ring.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wredundant-decls"
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>
#pragma GCC diagnostic pop

// ---- ids ------------------------------------------------------------------------------------

static const uint16_t id_of[CT_HOOKS] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    [CT_ID_##symbol] = CUPTI_DRIVER_TRACE_CBID_##symbol,
#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args)
#include "intercept/hooks.def"
};

uint32_t ct_cupti_calls_id(enum ct_hook_id hook) {
    return id_of[hook];
}

static int find_hook(uint32_t cbid) {
    static _Atomic uint16_t known[CUPTI_DRIVER_TRACE_CBID_SIZE]; // hook + 1
    if (cbid >= CUPTI_DRIVER_TRACE_CBID_SIZE)
        return -1;
    int found = atomic_load_explicit(&known[cbid], memory_order_relaxed);
    for (int i = 0; !found && cbid && i < CT_HOOKS; i++)
        if (id_of[i] == cbid)
            found = i + 1;
    atomic_store_explicit(&known[cbid], (uint16_t)found, memory_order_relaxed);
    return found - 1;
}

// ---- bodies ---------------------------------------------------------------------------------

// Member n of the parameters has the name of argument n (generated_cuda_meta.h).
#define P1(a) given->a
#define P2(a, ...) given->a, P1(__VA_ARGS__)
#define P3(a, ...) given->a, P2(__VA_ARGS__)
#define P4(a, ...) given->a, P3(__VA_ARGS__)
#define P5(a, ...) given->a, P4(__VA_ARGS__)
#define P6(a, ...) given->a, P5(__VA_ARGS__)
#define P7(a, ...) given->a, P6(__VA_ARGS__)
#define P8(a, ...) given->a, P7(__VA_ARGS__)
#define PICK(a, b, c, d, e, f, g, h, name, ...) name
#define MEMBERS(...) PICK(__VA_ARGS__, P8, P7, P6, P5, P4, P3, P2, P1, )(__VA_ARGS__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CT_HOOK(symbol, base, abi, ptsz, params, args)     \
    static CUresult CUDAAPI real_##symbol params {         \
        return ct_hook_scope_real();                       \
    }                                                      \
    static void run_##symbol(const void *parameters) {     \
        const symbol##_params *const given = parameters;   \
        (void)ct_on_##symbol(real_##symbol, MEMBERS args); \
    }
#define CT_HOOK0(symbol, base, abi, ptsz)              \
    static CUresult CUDAAPI real_##symbol(void) {      \
        return ct_hook_scope_real();                   \
    }                                                  \
    static void run_##symbol(const void *parameters) { \
        (void)ct_on_##symbol(real_##symbol);           \
    }
#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args)
#include "intercept/hooks.def"
#pragma GCC diagnostic pop

static void (*const run[CT_HOOKS])(const void *) = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) [CT_ID_##symbol] = run_##symbol,
#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args)
#include "intercept/hooks.def"
};

// Of its own, because a function that calls _setjmp keeps nothing in registers.
static __attribute__((noinline)) void run_first_pass(enum ct_hook_id id, const void *parameters) {
    if (!_setjmp(ct_passes->leave))
        run[id](parameters);
}

static void run_pass(enum ct_pass pass, enum ct_hook_id id, const void *parameters) {
    const int saved = errno;
    ct_passes->now = pass;
    ct_passes->kept_count = 0;
    ct_own_code_in_call_back = 1;
    if (pass == CT_PASS_FIRST)
        run_first_pass(id, parameters);
    else
        run[id](parameters);
    ct_own_code_in_call_back = 0;
    ct_passes->now = CT_PASS_ONLY;
    errno = saved;
}

// ---- call-backs -----------------------------------------------------------------------------

static __thread uintptr_t busy; // the frame of the call-back that this thread is in, 0: none

static const void *find_caller(void) {
    ct_own_code_in_call_back = 1;
    const void *const caller = ct_capture_caller();
    ct_own_code_in_call_back = 0;
    return caller;
}

// Whether a call belongs to another recorded one, in which it is made, as in the wrappers. Its
// parameters lie in the frame of the driver's function; of a call between its passes, such a frame
// is further out.
static int is_nested(uint32_t subscription, uintptr_t parameters) {
    enum ct_enclosing found = CT_ENCLOSING_NONE;
    if (ct_passes && ct_passes->subscription == subscription)
        found = ct_enclosing_find(parameters, CT_ENCLOSING_ANY, ct_own_code_is_passed);
    if (found == CT_ENCLOSING_NONE)
        found = ct_hook_scope_outer(parameters);
    ct_ring_count_lost(ct_enclosing_is_lost(found));
    return found != CT_ENCLOSING_NONE;
}

static void call_enters(enum ct_hook_id id, uint32_t subscription, const CUpti_CallbackData *data) {
    if (ct_wrapped_call_is(id, (uintptr_t)__builtin_frame_address(0))) {
        ct_audit_note_both(id);
        return;
    }
    if (is_nested(subscription, (uintptr_t)data->functionParams))
        return;
    // What an ended subscription, or a call that was left by an exception, has left behind is used
    // again.
    if (!ct_passes && !ct_passes_borrow()) {
        ct_ring_count_lost(1);
        return;
    }
    ct_passes->subscription = subscription;
    ct_passes->correlation = data->correlationId;
    ct_passes->scope = CT_PASS_NOT_ENTERED;
    run_pass(CT_PASS_FIRST, id, data->functionParams);
}

static void call_exits(enum ct_hook_id id, uint32_t subscription, const CUpti_CallbackData *data) {
    if (!ct_passes || ct_passes->subscription != subscription ||
        ct_passes->correlation != data->correlationId)
        return;
    ct_passes->result = *(const CUresult *)data->functionReturnValue;
    run_pass(CT_PASS_SECOND, id, data->functionParams);
    ct_audit_note_only_cupti(id, find_caller());
    ct_passes_give_back();
}

static void module_changes(uint32_t cbid, const CUpti_ResourceData *data) {
    const CUpti_ModuleResourceData *const m = data->resourceDescriptor;
    if (m && cbid == CUPTI_CBID_RESOURCE_MODULE_LOADED)
        ct_cupti_modules_loaded(m->pCubin, m->cubinSize);
    if (m && cbid == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
        ct_cupti_modules_unloads(m->pCubin, m->cubinSize);
}

// Whether a call is made inside of another one's call-back: by this library, which is of no
// interest, or by a signal handler, which is lost. If not, a handler has left that call-back by
// siglongjmp. Where the stack cannot be followed it is taken for this library's, which makes some
// calls in every call-back: so it is in a child whose fork has left the unwinder locked, and may be
// where the driver has no unwind information.
static __attribute__((noinline, cold)) int is_in_call_back(const CUpti_CallbackData *data) {
    const enum ct_enclosing found =
        ct_enclosing_find((uintptr_t)data->functionParams, busy, ct_own_code_has);
    ct_ring_count_lost(found == CT_ENCLOSING_HANDLER && data->callbackSite == CUPTI_API_ENTER);
    if (found != CT_ENCLOSING_NONE)
        return 1;
    ct_own_code_in_call_back = 0;
    if (ct_passes)
        ct_passes->now = CT_PASS_ONLY;
    return 0;
}

void ct_cupti_calls_back(void *userdata, int domain, uint32_t cbid, const void *cbdata) {
    const uint32_t subscription = (uint32_t)(uintptr_t)userdata;
    const CUpti_CallbackData *const data = cbdata;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
        if (ct_subscription_current() == subscription)
            module_changes(cbid, cbdata);
        return;
    }
    const int hook = domain == CUPTI_CB_DOMAIN_DRIVER_API ? find_hook(cbid) : -1;
    if (hook < 0 || ct_subscription_current() != subscription)
        return;
    if (__builtin_expect(busy != 0, 0) && is_in_call_back(data))
        return;
    busy = (uintptr_t)__builtin_frame_address(0);
    if (data->callbackSite == CUPTI_API_ENTER)
        call_enters((enum ct_hook_id)hook, subscription, data);
    else
        call_exits((enum ct_hook_id)hook, subscription, data);
    busy = 0;
}

#else

uint32_t ct_cupti_calls_id(enum ct_hook_id hook) {
    (void)hook;
    return 0;
}

void ct_cupti_calls_back(void *userdata, int domain, uint32_t cbid, const void *cbdata) {
    (void)userdata;
    (void)domain;
    (void)cbid;
    (void)cbdata;
}

#endif

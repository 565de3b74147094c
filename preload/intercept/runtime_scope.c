// SPDX-License-Identifier: Apache-2.0
// Thread-local state of the runtime call that a thread is inside of.
#define _GNU_SOURCE
#include "intercept/runtime_scope.h"

#include <stdatomic.h>

#include <cutrace/format/hot.h>

#include "stack/own_code.h"

// What was entered and not left. An exception or a longjmp leaves without saying so, and a signal
// handler's calls belong to none: what this means, the stack says.
static __thread struct {
    uint32_t name;          // of the outermost runtime function, 0 outside
    uintptr_t frame;        // address of its ct_runtime_scope
    unsigned allocs, frees; // driver calls seen
} inside;

extern const char __start_ct_runtime_wrappers[] __attribute__((visibility("hidden")));
extern const char __stop_ct_runtime_wrappers[] __attribute__((visibility("hidden")));

static int is_wrapper(uintptr_t pc) {
    return pc > (uintptr_t)__start_ct_runtime_wrappers &&
           pc <= (uintptr_t)__stop_ct_runtime_wrappers;
}

// ---- the name of a driver call ---------------------------------------------------------------

// To ask the stack costs more than the rest of a hook, and nearly all driver calls of a program
// that uses the runtime come from inside of it. So places from which a call has come from inside of
// a runtime call are remembered: the runtime's code calls from nowhere else. (A wrong answer is a
// wrong name.)
#define PLACES 256u
static _Atomic uintptr_t known[PLACES];

static _Atomic uintptr_t *place_of(uintptr_t pc) {
    return &known[pc * UINT64_C(0x9E3779B97F4A7C15) >> 56];
}

// The code outside of this library that has called it. This library is compiled with frame
// pointers, so up to its outermost frame they lead from each frame to its caller's.
static inline uintptr_t find_caller(void) {
    const uintptr_t *frame = __builtin_frame_address(0);
    for (int i = 0; i < 8 && ct_own_code_has(frame[1]); i++)
        frame = (const uintptr_t *)frame[0];
    return frame[1];
}

CT_COLD uint32_t ask_stack(uintptr_t address, uintptr_t caller) {
    const enum ct_enclosing found = ct_enclosing_find(address, inside.frame, is_wrapper);
    if (found == CT_ENCLOSING_CALL && !ct_own_code_in_call_back)
        atomic_store_explicit(place_of(caller), caller, memory_order_relaxed);
    if (found == CT_ENCLOSING_NONE)
        inside.name = 0;
    return found == CT_ENCLOSING_HANDLER ? 0 : inside.name;
}

uint32_t ct_runtime_scope_api(uintptr_t address) {
    if (__builtin_expect(!inside.name, 1))
        return 0;
    const uintptr_t caller = find_caller();
    const uintptr_t there = atomic_load_explicit(place_of(caller), memory_order_relaxed);
    return __builtin_expect(there == caller && address < inside.frame, 1)
               ? inside.name
               : ask_stack(address, caller);
}

// ---- entering and leaving --------------------------------------------------------------------

CT_COLD enum ct_enclosing find_outer(uintptr_t address) {
    const enum ct_enclosing found = ct_enclosing_find(address, inside.frame, is_wrapper);
    if (found == CT_ENCLOSING_NONE)
        inside.name = 0;
    return found;
}

void ct_runtime_scope_enter(struct ct_runtime_scope *scope, uint32_t name) {
    scope->outer = inside.name ? find_outer((uintptr_t)scope) : CT_ENCLOSING_NONE;
    scope->outer_name = inside.name;
    scope->outer_frame = inside.frame;
    scope->allocs = inside.allocs;
    scope->frees = inside.frees;
    if (scope->outer == CT_ENCLOSING_NONE || scope->outer == CT_ENCLOSING_HANDLER) {
        inside.name = name;
        inside.frame = (uintptr_t)scope;
    }
}

void ct_runtime_scope_leave(const struct ct_runtime_scope *scope) {
    inside.name = scope->outer_name;
    inside.frame = scope->outer_frame;
}

// ---- driver calls ----------------------------------------------------------------------------

void ct_runtime_scope_count(enum ct_op op) {
    if (op == CT_OP_ALLOC || op == CT_OP_CREATE || op == CT_OP_GRAPH_ALLOC)
        inside.allocs++;
    else if (op == CT_OP_FREE || op == CT_OP_RELEASE || op == CT_OP_UNMAP)
        inside.frees++;
}

int ct_runtime_scope_saw_alloc(const struct ct_runtime_scope *scope) {
    return inside.allocs != scope->allocs;
}

int ct_runtime_scope_saw_free(const struct ct_runtime_scope *scope) {
    return inside.frees != scope->frees;
}

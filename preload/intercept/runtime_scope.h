// SPDX-License-Identifier: Apache-2.0
// Inside which runtime call a thread is, and which driver calls were seen there. All functions work
// on the calling thread.
#ifndef CT_RUNTIME_SCOPE_H
#define CT_RUNTIME_SCOPE_H

#include <stdint.h>

#include <cutrace/format/format.h>

#include "stack/enclosing.h"

// The code of a wrapper that has a scope in its frame: by its address that frame is known on the
// stack.
#define CT_RUNTIME_WRAPPER __attribute__((section("ct_runtime_wrappers")))

// A runtime call in progress; lives in the wrapper's frame.
struct ct_runtime_scope {
    uint32_t outer_name; // what was in force before, 0: nothing
    uintptr_t outer_frame;
    enum ct_enclosing outer; // how the call stands to that
    unsigned allocs, frees;  // driver calls that were seen before
};

// Name id of the outermost runtime function that the thread is inside of, 0 outside. `address` lies
// in the frame of the driver call that asks.
uint32_t ct_runtime_scope_api(uintptr_t address);

void ct_runtime_scope_enter(struct ct_runtime_scope *scope, uint32_t name);
void ct_runtime_scope_leave(const struct ct_runtime_scope *scope);

// Every driver hook reports its call, so that the runtime call around it knows that it was seen.
void ct_runtime_scope_count(enum ct_op op);

// Whether driver calls that allocate, or that free, were seen since ct_runtime_scope_enter.
int ct_runtime_scope_saw_alloc(const struct ct_runtime_scope *scope);
int ct_runtime_scope_saw_free(const struct ct_runtime_scope *scope);

#endif

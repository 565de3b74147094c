// SPDX-License-Identifier: Apache-2.0
// Thread-local state of the runtime call that a thread is inside of.
#define _GNU_SOURCE
#include "intercept/runtime_scope.h"

static __thread struct {
    uint32_t name;          // of the outermost runtime function, 0 outside
    uintptr_t frame;        // address of its ct_runtime_scope
    unsigned allocs, frees; // driver calls seen
} inside;

uint32_t ct_runtime_scope_api(void) {
    return inside.name;
}

void ct_runtime_scope_enter(struct ct_runtime_scope *scope, uint32_t name) {
    // An exception or longjmp may have left the outer call without ct_runtime_scope_leave. A scope
    // at the outer one's address or above cannot be inside of it.
    if (inside.name && (uintptr_t)scope >= inside.frame)
        inside.name = 0;
    scope->outer = inside.name;
    scope->allocs = inside.allocs;
    scope->frees = inside.frees;
    if (!inside.name) {
        inside.name = name;
        inside.frame = (uintptr_t)scope;
    }
}

void ct_runtime_scope_leave(const struct ct_runtime_scope *scope) {
    inside.name = scope->outer;
}

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

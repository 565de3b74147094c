// SPDX-License-Identifier: Apache-2.0
// Looks for PyTorch's allocator in the stack of a failed allocation.
#include "write/oom_caller.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cutrace/format/assert.h>

#include "store/loaded_modules.h"
#include "store/stack_table.h"
#include "write/drain_lock.h"
#include "write/oom_message.h"
#include "write/symbolizer.h"

#define FRAMES 24u // of CUDA's libraries, at most, before their caller

static int (*_Atomic reporter)(void);

void ct_oom_caller_set_reporter(int (*reports)(void)) {
    atomic_store(&reporter, reports);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The driver and the runtime. (The frames of this library are in no stack.)
static int is_cuda(const struct ct_loaded_module *m) {
    static const char *const names[] = {"libcuda.so", "libcudart.so", "libcudart-"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(base_name(m->path), names[i], strlen(names[i])))
            return 1;
    return 0;
}

// The module of the first native frame outside CUDA's libraries; NULL if there is none, or if it is
// not known. Sets *unknown to whether it is not known.
static const struct ct_loaded_module *find_module(uint32_t stack, int *unknown) {
    const struct ct_stack_entry *s = ct_stack_table_get(stack);
    *unknown = 0;
    for (uint32_t i = 0; s && i < s->frames && i < FRAMES; i++) {
        if (!ct_frame_word_is_native(s->frame[i]))
            continue;
        const struct ct_loaded_module *m = ct_loaded_modules_find(s->frame[i] - 1);
        *unknown = !m;
        if (!m || !is_cuda(m))
            return m;
    }
    return NULL;
}

void ct_oom_caller_find_modules(const struct ct_event *events, size_t n) {
    CT_ASSERT(ct_drain_lock_is_held());
    for (const struct ct_event *e = events; e < events + n; e++) {
        int unknown = 0;
        if (ct_event_is_oom(e) && CT_HAS(e, stack))
            (void)find_module(e->stack, &unknown);
        if (unknown)
            ct_symbolizer_find_modules();
    }
}

// Read at each failure, because a program may set it before it loads PyTorch.
static int is_caching(void) {
    return !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
}

int ct_oom_caller_tries_again(const struct ct_event *e) {
    int unknown;
    int (*const reports)(void) = atomic_load(&reporter);
    CT_ASSERT(ct_drain_lock_is_held());
    const int is_repeated =
        e->op == CT_OP_CREATE ||
        (e->op == CT_OP_ALLOC && !(CT_HAS(e, flags) && e->flags & CT_FLAG_ASYNC) &&
         CT_HAS(e, space) && e->space == CT_SPACE_DEVICE);
    if (!is_repeated || !CT_HAS(e, stack) || !reports || !reports() || !is_caching())
        return 0;
    const struct ct_loaded_module *m = find_module(e->stack, &unknown);
    return m && !strncmp(base_name(m->path), "libc10_cuda.so", 14);
}

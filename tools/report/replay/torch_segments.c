// SPDX-License-Identifier: Apache-2.0
// Finds in stacks which library called the driver.
#include "replay/torch_segments.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

static int contains(const struct ct_string *s, const char *part) {
    return s->length && memmem(s->at, s->length, part, strlen(part)) != NULL;
}

static struct ct_string get_base_name(const struct ct_string *path) {
    struct ct_string s = *path;
    const char *slash = s.length ? memrchr(s.at, '/', s.length) : NULL;
    if (slash) {
        s.length -= (uint32_t)(slash + 1 - s.at);
        s.at = slash + 1;
    }
    return s;
}

// The library of the innermost frame outside CUDA and cutrace.
uint32_t ct_torch_segments_caller(const struct ct_definitions *n, uint32_t stack) {
    for (uint32_t node = stack ? n->stacks[stack] : 0; node; node = n->nodes[node].parent) {
        const struct ct_frame *f = ct_definitions_node_frame(n, node);
        if (f->kind != CT_FRAME_NATIVE || !f->module)
            return 0;
        const uint32_t path = n->modules[f->module].path;
        const struct ct_string base = get_base_name(&n->strings[path]);
        if (!contains(&base, "libcuda") && !contains(&base, "libcutrace"))
            return path;
    }
    return 0;
}

static int is_foreign(const struct ct_definitions *n, uint32_t path) {
    const struct ct_string base = get_base_name(&n->strings[path]);
    return path && !contains(&base, "libc10") && !contains(&base, "libtorch");
}

uint8_t *ct_torch_segments_foreign_stacks(const struct ct_definitions *n) {
    int any = 0, torch = 0;
    for (uint32_t i = 0; i < n->module_count; i++)
        torch |= contains(&n->strings[n->modules[i].path], "libc10");
    uint8_t *foreign = torch && n->stack_count ? ct_heap_alloc_zeroed(n->stack_count, 1) : NULL;
    for (uint32_t i = 0; foreign && i < n->stack_count; i++)
        any |= foreign[i] = (uint8_t)is_foreign(n, ct_torch_segments_caller(n, i));
    if (!any) {
        free(foreign);
        foreign = NULL;
    }
    return foreign;
}

static enum ct_segment_kind get_kind(const struct ct_torch_region *r) {
    if (r->async)
        return CT_SEGMENT_ASYNC;
    if (!r->maps)
        return CT_SEGMENT_MALLOC;
    return r->maps == 1 ? CT_SEGMENT_MAPPED : CT_SEGMENT_EXPANDABLE;
}

// Most bytes first.
static int compare_bytes(const void *a, const void *b) {
    const struct ct_torch_segments *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->module < y->module ? -1 : 1;
}

struct ct_torch_segments *ct_torch_segments_by_kind(const struct ct_trace *t,
                                                    const struct ct_torch_pool *p, int device,
                                                    size_t *count) {
    struct ct_torch_segments *list = NULL;
    size_t n = 0, room = 0, at;
    for (uint32_t i = 0; i < p->region_count; i++) {
        const struct ct_torch_region *r = &p->regions[i];
        if (!r->bytes || !r->held || r->device != device)
            continue;
        const enum ct_segment_kind kind = get_kind(r);
        const uint32_t module = ct_torch_segments_caller(&t->definitions, r->stack);
        for (at = 0; at < n && !(list[at].kind == kind && list[at].module == module); at++)
            ;
        if (at == n) {
            CT_HEAP_GROW(list, n, room);
            list[n++] = (struct ct_torch_segments){
                .kind = kind, .module = module, .foreign = is_foreign(&t->definitions, module)};
        }
        list[at].segments++;
        list[at].bytes += r->bytes;
    }
    if (n)
        qsort(list, n, sizeof *list, compare_bytes);
    *count = n;
    return list;
}

const char *ct_torch_segments_kind_name(enum ct_segment_kind kind) {
    static const char *const names[] = {"cudaMalloc", "expandable", "mapped", "cudaMallocAsync"};
    return names[kind];
}

// ---- what settings mean -------------------------------------------------------------------------

// Whether an INFO pair exists and, unless `part` is NULL, contains a text.
static int has_setting(const struct ct_trace *t, const char *key, const char *part) {
    const struct ct_string *s = ct_definitions_info(&t->definitions, key);
    return s && (!part || contains(s, part));
}

// Whether PyTorch's allocator has a setting. Older and newer versions of PyTorch read different
// variables.
static int has_allocator_setting(const struct ct_trace *t, const char *part) {
    return has_setting(t, "process.env.PYTORCH_CUDA_ALLOC_CONF", part) ||
           has_setting(t, "process.env.PYTORCH_ALLOC_CONF", part);
}

const char *ct_torch_settings_without_blocks(const struct ct_trace *t) {
    if (has_setting(t, "process.env.PYTORCH_NO_CUDA_MEMORY_CACHING", NULL))
        return "PYTORCH_NO_CUDA_MEMORY_CACHING: each tensor is an allocation of the driver's";
    if (has_allocator_setting(t, "backend:cudaMallocAsync"))
        return "backend:cudaMallocAsync: blocks are the driver's stream-ordered allocations";
    return NULL;
}

// Whether a hook was called whose INFO key begins with a text.
static int was_called(const struct ct_trace *t, const char *hook) {
    const size_t length = strlen(hook);
    for (size_t i = 0; i < t->definitions.info_count; i++) {
        const struct ct_string *key = &t->definitions.strings[t->definitions.info[i].key];
        if (key->length > length && memcmp(key->at, hook, length) == 0)
            return 1;
    }
    return 0;
}

// Only a process that ended in good order has counted all of its hooks. Else, and without any
// count, assume the worse.
int ct_torch_settings_limit_reuse(const struct ct_trace *t) {
    return was_called(t, "hook.cuStreamCreate") || !was_called(t, "hook.") || !t->ended;
}

int ct_torch_settings_hide_retries(const struct ct_trace *t) {
    return has_allocator_setting(t, "max_split_size_mb") ||
           was_called(t, "hook.cuStreamBeginCapture") || !was_called(t, "hook.") || !t->ended;
}

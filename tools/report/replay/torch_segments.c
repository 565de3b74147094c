// SPDX-License-Identifier: Apache-2.0
// Looks into stacks for the library that called the driver, and into the facts for PyTorch's settings.
#include "replay/torch_segments.h"

#include <string.h>

static int named(const struct ct_string *s, const char *part) {
    return s->length && memmem(s->at, s->length, part, strlen(part)) != NULL;
}

static struct ct_string base_of(const struct ct_string *path) {
    struct ct_string s = *path;
    const char *slash = s.length ? memrchr(s.at, '/', s.length) : NULL;
    if (slash) {
        s.length -= (uint32_t)(slash + 1 - s.at);
        s.at = slash + 1;
    }
    return s;
}

// The innermost frame that is neither CUDA's nor ours.
uint32_t ct_torch_segments_caller(const struct ct_definitions *n, uint32_t stack) {
    for (uint32_t node = stack ? n->stacks[stack] : 0; node; node = n->nodes[node].parent) {
        const struct ct_frame *f = ct_definitions_node_frame(n, node);
        if (f->kind != CT_FRAME_NATIVE || !f->module)
            return 0;
        const uint32_t path = n->modules[f->module].path;
        const struct ct_string base = base_of(&n->strings[path]);
        if (!named(&base, "libcuda") && !named(&base, "libcutrace"))
            return path;
    }
    return 0;
}

static int is_foreign(const struct ct_definitions *n, uint32_t path) {
    const struct ct_string base = base_of(&n->strings[path]);
    return path && !named(&base, "libc10") && !named(&base, "libtorch");
}

uint8_t *ct_torch_segments_foreign_stacks(const struct ct_definitions *n) {
    int any = 0, torch = 0;
    for (uint32_t i = 0; i < n->module_count; i++)
        torch |= named(&n->strings[n->modules[i].path], "libc10");
    uint8_t *foreign = torch && n->stack_count ? ct_heap_alloc_zeroed(n->stack_count, 1) : NULL;
    for (uint32_t i = 0; foreign && i < n->stack_count; i++)
        any |= foreign[i] = (uint8_t)is_foreign(n, ct_torch_segments_caller(n, i));
    if (!any) {
        free(foreign);
        foreign = NULL;
    }
    return foreign;
}

static enum ct_segment_kind kind_of(const struct ct_torch_region *r) {
    return r->async       ? CT_SEGMENT_ASYNC
           : !r->maps     ? CT_SEGMENT_MALLOC
           : r->maps == 1 ? CT_SEGMENT_MAPPED
                          : CT_SEGMENT_EXPANDABLE;
}

static int by_bytes(const void *a, const void *b) {
    const struct ct_torch_segments *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1) : x->module < y->module ? -1 : 1;
}

struct ct_torch_segments *ct_torch_segments_by_kind(const struct ct_trace *t, const struct ct_torch_pool *p,
                                              int device, size_t *count) {
    struct ct_torch_segments *list = NULL;
    size_t n = 0, room = 0, at;
    for (uint32_t i = 0; i < p->region_count; i++) {
        const struct ct_torch_region *r = &p->regions[i];
        if (!r->bytes || !r->held || r->device != device)
            continue;
        const enum ct_segment_kind kind = kind_of(r);
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
        qsort(list, n, sizeof *list, by_bytes);
    *count = n;
    return list;
}

const char *ct_torch_segments_kind_name(enum ct_segment_kind kind) {
    static const char *const names[] = {"cudaMalloc", "expandable", "mapped", "cudaMallocAsync"};
    return names[kind];
}

// ---- settings ---------------------------------------------------------------------------------------

static int setting(const struct ct_trace *t, const char *key, const char *part) {
    const struct ct_string *s = ct_definitions_info(&t->definitions, key);
    return s && (!part || named(s, part));
}

// One of the settings of PyTorch's allocator, which has had two variables.
static int allocator_setting(const struct ct_trace *t, const char *part) {
    return setting(t, "process.env.PYTORCH_CUDA_ALLOC_CONF", part) ||
           setting(t, "process.env.PYTORCH_ALLOC_CONF", part);
}

const char *ct_torch_settings_without_blocks(const struct ct_trace *t) {
    if (setting(t, "process.env.PYTORCH_NO_CUDA_MEMORY_CACHING", NULL))
        return "PYTORCH_NO_CUDA_MEMORY_CACHING: each tensor is an allocation of the driver's";
    if (allocator_setting(t, "backend:cudaMallocAsync"))
        return "backend:cudaMallocAsync: blocks are the driver's stream-ordered allocations";
    return NULL;
}

// Whether a hook whose name begins so was called.
static int called(const struct ct_trace *t, const char *hook) {
    const size_t length = strlen(hook);
    for (size_t i = 0; i < t->definitions.info_count; i++) {
        const struct ct_string *key = &t->definitions.strings[t->definitions.facts[i].key];
        if (key->length > length && memcmp(key->at, hook, length) == 0)
            return 1;
    }
    return 0;
}

// At a clean end, the hooks that were called are all counted.
int ct_torch_settings_limit_reuse(const struct ct_trace *t) {
    return called(t, "hook.cuStreamCreate") || !called(t, "hook.") || !t->ended;
}

int ct_torch_settings_hide_retries(const struct ct_trace *t) {
    return allocator_setting(t, "max_split_size_mb") || called(t, "hook.cuStreamBeginCapture") ||
           !called(t, "hook.") || !t->ended;
}

// SPDX-License-Identifier: Apache-2.0
// Groups live host memory by kind and calling library.
#include "analyze/host_memory.h"

#include "base/heap.h"
#include "replay/torch_segments.h"

static int compare(const void *a, const void *b) {
    const struct ct_host_memory *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->registered != y->registered)
        return x->registered - y->registered;
    return x->module < y->module ? -1 : x->module > y->module;
}

struct ct_host_memory *ct_host_memory_list(const struct ct_definitions *n, const struct ct_live *l,
                                           size_t *count) {
    struct ct_host_memory *list = NULL;
    size_t used = 0, room = 0, at;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        const int registered = o && o->kind == CT_KIND_REGISTERED;
        if (!o || !(registered || (o->kind == CT_KIND_ADDRESS && ct_object_is_host(l, o))))
            continue;
        const uint32_t module = ct_torch_segments_caller(n, o->stack);
        for (at = 0; at < used && !(list[at].registered == registered && list[at].module == module);
             at++)
            ;
        if (at == used) {
            CT_HEAP_GROW(list, used, room);
            list[used++] = (struct ct_host_memory){.registered = registered, .module = module};
        }
        list[at].ranges++;
        list[at].bytes += o->bytes;
    }
    if (used)
        qsort(list, used, sizeof *list, compare);
    *count = used;
    return list;
}

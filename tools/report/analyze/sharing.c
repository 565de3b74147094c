// SPDX-License-Identifier: Apache-2.0
// Remembers what handles were made of. Whether that is still there is asked at the end: what was taken anew at the same
// address comes from a later event.
#include "analyze/sharing.h"

#include "base/heap.h"
#include "replay/torch_segments.h"

static uint64_t key_of(unsigned kind, uint64_t key) {
    return ct_hash_mix(key) ^ kind;
}

// What a handle was made of: an allocation, or the memory that is mapped at an address.
static const struct ct_object *exported(const struct ct_live *l, const struct ct_event *e) {
    const struct ct_object *o = NULL;
    if (CT_HAS(e, handle))
        return ct_live_find(l, CT_KIND_HANDLE, e->handle);
    if (CT_HAS(e, ptr) && !(o = ct_live_find(l, CT_KIND_ADDRESS, e->ptr)) &&
        (o = ct_live_find(l, CT_KIND_MAPPING, e->ptr)))
        o = ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
    return o;
}

void ct_sharing_note_export(struct ct_sharing *s, const struct ct_live *l, const struct ct_event *e) {
    const struct ct_object *o = CT_HAS(e, result) && e->result != 0 ? NULL : exported(l, e);
    if (o)
        *ct_map_add(&s->offered, key_of(o->kind, o->key)) = ct_object_event(o) + 1;
}

void ct_sharing_free(struct ct_sharing *s) {
    ct_map_free(&s->offered);
}

static int was_offered(const struct ct_sharing *s, const struct ct_object *o) {
    const uint64_t *event = ct_map_find(&s->offered, key_of(o->kind, o->key));
    return event && *event == ct_object_event(o) + 1;
}

static int is_foreign(const struct ct_live *l, const struct ct_object *o) {
    return (ct_live_traits(l, o)->flags & CT_FLAG_FOREIGN) != 0;
}

// A mapping is where its memory is.
static const struct ct_object *memory_of(const struct ct_live *l, const struct ct_object *o) {
    return o->kind == CT_KIND_MAPPING ? ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link)
                                      : o;
}

struct ct_shared ct_sharing_sum(const struct ct_sharing *s, const struct ct_live *l, int device) {
    struct ct_shared sum = {0};
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i), *memory = o ? memory_of(l, o) : NULL;
        if (!memory || ct_device_to_index(memory->device) != device)
            continue;
        if (o->kind == CT_KIND_IPC) {
            sum.opened++;
        } else if (memory->kind == CT_KIND_HANDLE && is_foreign(l, memory)) {
            sum.imported += o->kind == CT_KIND_HANDLE;
            sum.imported_bytes += o->kind == CT_KIND_MAPPING ? o->bytes : 0;
        } else if ((o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_HANDLE) && was_offered(s, o)) {
            sum.offered++;
            sum.offered_bytes += o->bytes;
        }
    }
    return sum;
}

static int by_bytes(const void *a, const void *b) {
    const struct ct_host_memory *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->registered != y->registered ? x->registered - y->registered
           : x->module < y->module        ? -1
                                          : x->module > y->module;
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
        list[at].pieces++;
        list[at].bytes += o->bytes;
    }
    if (used)
        qsort(list, used, sizeof *list, by_bytes);
    *count = used;
    return list;
}

// SPDX-License-Identifier: Apache-2.0
// Remembers by the event that made them which objects were exported. The sum compares those events,
// because a new object at the same address comes from a later event.
#include "analyze/sharing.h"

static uint64_t key_of(unsigned kind, uint64_t key) {
    return ct_hash_mix(key) ^ kind;
}

// Returns the exported object: an allocation, or the memory that is mapped at an address.
static const struct ct_object *find_exported(const struct ct_live *l, const struct ct_event *e) {
    const struct ct_object *o = NULL;
    if (CT_HAS(e, handle))
        return ct_live_find(l, CT_KIND_HANDLE, e->handle);
    if (CT_HAS(e, ptr) && !(o = ct_live_find(l, CT_KIND_ADDRESS, e->ptr)) &&
        (o = ct_live_find(l, CT_KIND_MAPPING, e->ptr)))
        o = ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
    return o;
}

void ct_sharing_note_export(struct ct_sharing *s, const struct ct_live *l,
                            const struct ct_event *e) {
    const struct ct_object *o = CT_HAS(e, result) && e->result != 0 ? NULL : find_exported(l, e);
    if (o)
        *ct_map_add(&s->exported, key_of(o->kind, o->key)) = ct_object_event(o) + 1;
}

void ct_sharing_free(struct ct_sharing *s) {
    ct_map_free(&s->exported);
}

static int was_exported(const struct ct_sharing *s, const struct ct_object *o) {
    const uint64_t *event = ct_map_find(&s->exported, key_of(o->kind, o->key));
    return event && *event == ct_object_event(o) + 1;
}

static int is_foreign(const struct ct_live *l, const struct ct_object *o) {
    return (ct_live_traits(l, o)->flags & CT_FLAG_FOREIGN) != 0;
}

// Returns the memory behind an object: for a mapping, the mapped handle. The device is known of the
// memory only.
static const struct ct_object *memory_of(const struct ct_live *l, const struct ct_object *o) {
    if (o->kind != CT_KIND_MAPPING)
        return o;
    return ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
}

void ct_sharing_sum(const struct ct_sharing *s, const struct ct_live *l,
                    struct ct_shared to[CT_DEVICES]) {
    memset(to, 0, CT_DEVICES * sizeof *to);
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i), *memory = o ? memory_of(l, o) : NULL;
        if (!memory)
            continue;
        struct ct_shared *sum = &to[ct_device_to_index(memory->device)];
        if (o->kind == CT_KIND_IPC) {
            sum->opened++;
        } else if (memory->kind == CT_KIND_HANDLE && is_foreign(l, memory)) {
            sum->imported += o->kind == CT_KIND_HANDLE;
            sum->imported_bytes += o->kind == CT_KIND_MAPPING ? o->bytes : 0;
        } else if ((o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_HANDLE) &&
                   was_exported(s, o)) {
            sum->exported++;
            sum->exported_bytes += o->bytes;
        }
    }
}

void ct_shared_add(struct ct_shared *to, const struct ct_shared *more) {
    to->exported += more->exported;
    to->exported_bytes += more->exported_bytes;
    to->opened += more->opened;
    to->imported += more->imported;
    to->imported_bytes += more->imported_bytes;
}

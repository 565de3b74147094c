// SPDX-License-Identifier: Apache-2.0
// Tentative frees. A free is published before its call, so its event does not say whether the call
// succeeds. An entry of the table is in use if freed_ns is not 0; the slot that it names then has
// the kind CT_KIND_TENTATIVE.
//
// A reader that applies events as they come withdraws the object from the index and the totals, but
// keeps its slot until an AMEND says that the call failed, or the thread frees something else. A
// reader that knows all AMENDs beforehand (the report) lends no table: then every free is final.
// Operations that end several objects or a reference (unmap, release, ipc-close, context-destroy)
// are final at once: no program was seen in which one of them failed and the process went on.
#ifndef CUTRACE_TENTATIVE_H
#define CUTRACE_TENTATIVE_H

#include <cutrace/model/live_segments.h>

// Of an object that several threads have freed, all frees are final.
CT_COLD void ct_tentative_confirm_all(struct ct_live *l, uint32_t slot) {
    for (uint32_t i = 0; i < l->tentative_used; i++)
        if (l->tentative[i].slot == slot)
            l->tentative[i].freed_ns = 0;
}

// The free is final: discards the object.
CT_HOT void ct_tentative_confirm(struct ct_live *l, struct ct_tentative *a) {
    const uint32_t slot = a->slot;
    if (!a->freed_ns)
        return;
    CT_ASSERT(ct_live_slot(l, slot)->object.kind == CT_KIND_TENTATIVE);
    a->freed_ns = 0;
    if (a->shared)
        ct_tentative_confirm_all(l, slot);
    ct_object_discard(l, slot);
}

// Notes that the event has freed the tentatively freed object of a slot.
CT_HOT void ct_tentative_note(struct ct_live *l, const struct ct_event *e, uint32_t slot,
                              unsigned kind, int shared) {
    const uint32_t thread = CT_GET(e, thread), at = thread & (l->tentative_room - 1);
    CT_ASSERT(!(l->tentative_room & (l->tentative_room - 1)));
    l->tentative[at] = (struct ct_tentative){e->t_ns, thread, slot, (uint8_t)kind, (uint8_t)shared};
    if (at >= l->tentative_used)
        l->tentative_used = at + 1;
}

// A thread that frees again has returned from its last free: that one succeeded, unless it was
// amended.
CT_HOT void ct_tentative_confirm_last(struct ct_live *l, const struct ct_event *e) {
    if (l->tentative_room)
        ct_tentative_confirm(l, &l->tentative[CT_GET(e, thread) & (l->tentative_room - 1)]);
}

// Frees an object: for good if the caller lent no table.
CT_HOT void ct_tentative_free(struct ct_live *l, const struct ct_found *f,
                              const struct ct_event *e) {
    struct ct_object *o = &f->what->object;
    if (!l->tentative_room) {
        ct_object_remove_found(l, f);
        return;
    }
    ct_object_withdraw(l, f);
    ct_tentative_note(l, e, f->slot, o->kind, 0);
    o->kind = CT_KIND_TENTATIVE;
}

// Two threads free the same object: it stays live only if both calls fail. Returns 0 if no object
// with this key is tentatively freed.
static inline int ct_tentative_free_again(struct ct_live *l, unsigned kind, uint64_t key,
                                          const struct ct_event *e) {
    struct ct_tentative *last = NULL; // older ones were allocated again since then
    for (uint32_t i = 0; i < l->tentative_used; i++) {
        struct ct_tentative *a = &l->tentative[i];
        if (a->freed_ns && a->kind == kind && ct_live_slot(l, a->slot)->object.key == key &&
            (!last || a->freed_ns > last->freed_ns))
            last = a;
    }
    if (!last)
        return 0;
    last->shared = 1;
    ct_tentative_note(l, e, last->slot, kind, 1);
    return 1;
}

// The call failed, so the object is live again.
static inline void ct_tentative_undo(struct ct_live *l, const struct ct_tentative *a) {
    struct ct_object *o = &ct_live_slot(l, a->slot)->object;
    const uint64_t hash = ct_slot_index_hash(o->key, a->kind);
    CT_ASSERT(o->kind == CT_KIND_TENTATIVE);
    struct ct_slot_index_part *p = ct_slot_index_part(l, hash);
    if (ct_slot_index_lookup(l, a->kind, o->key).what || ct_slot_index_reserve(l, p)) {
        ct_object_discard(l, a->slot); // the address was allocated again, so the call did not fail
        return;
    }
    o->kind = a->kind;
    ct_slot_index_insert(p, hash, a->slot);
    l->of_kind[a->kind]++;
    if (l->has_blocks && a->kind == CT_KIND_ADDRESS)
        ct_live_segment_note_start(l, o);
    if (a->kind == CT_KIND_ADDRESS)
        ct_object_count_address(l, o, ct_live_traits(l, o), +1);
    else
        ct_object_count(l, o, a->kind, ct_live_traits(l, o), +1);
}

// Applies an AMEND to the thread's last free.
static inline void ct_tentative_amend(struct ct_live *l, const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    struct ct_tentative *a =
        l->tentative_room ? &l->tentative[thread & (l->tentative_room - 1)] : NULL;
    int others = 0;
    if (!a || !a->freed_ns || a->thread != thread || a->freed_ns != e->amends_ns ||
        !CT_HAS(e, result) || !e->result)
        return;
    const struct ct_tentative was = *a;
    a->freed_ns = 0;
    for (uint32_t i = 0; was.shared && i < l->tentative_used; i++)
        others |= l->tentative[i].freed_ns && l->tentative[i].slot == was.slot;
    if (!others)
        ct_tentative_undo(l, &was);
}

#endif

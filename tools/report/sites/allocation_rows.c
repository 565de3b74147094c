// SPDX-License-Identifier: Apache-2.0
// An object has all that its row needs but its end, so that nothing is kept for each of them. At a
// gap the live objects are set aside: those that the checkpoint after it does not have again have
// ended in the gap.
#include "sites/allocation_rows.h"

#include "question/pass.h"

struct pass {
    const struct ct_allocation_rows *request;
    struct ct_replay replay;
    const struct ct_event *e; // that is being applied, or NULL
    uint64_t number, resets;
    uint64_t known_from;       // the first event after the last gap
    struct ct_map was_segment; // events of allocations that have held a block
    struct ct_allocation_row *aside;
    size_t aside_count, aside_room;
    struct ct_map aside_at; // event of an allocation -> its position + 1
};

const char *ct_row_end_name(enum ct_row_end end) {
    static const char *const names[] = {"live", "freed", "replaced", "unknown"};
    return names[end];
}

int ct_allocation_row_is_live_at(const struct ct_allocation_row *row, uint64_t event) {
    return row->known_from <= event && (row->end == CT_ROW_LIVE || row->end_event > event);
}

// ---- rows ---------------------------------------------------------------------------------------

static void describe(const struct pass *p, const struct ct_object *o,
                     struct ct_allocation_row *row) {
    const struct ct_live *l = &p->replay.live;
    const struct ct_traits *traits = ct_live_traits(l, o);
    const int is_sum = ct_live_slot(l, o->traits)->traits.kind == CT_KIND_OWN_TRAITS &&
                       o->kind != CT_KIND_HANDLE; // a sum, or a part of one (objects.h)
    *row = (struct ct_allocation_row){.is_block = o->kind == CT_KIND_BLOCK,
                                      .is_sum = is_sum,
                                      .event = ct_object_event(o),
                                      .t_ns = o->t_ns,
                                      .key = is_sum ? 0 : o->key,
                                      .is_handle =
                                          o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_BLOCK,
                                      .bytes = o->bytes,
                                      .count = ct_object_allocations(l, o),
                                      .device = o->device,
                                      .stack = o->stack,
                                      .api = traits->api,
                                      .thread = traits->thread,
                                      .space = traits->space,
                                      .flags = traits->flags};
    row->known_from = is_sum ? p->known_from : row->event;
    row->is_segment = !row->is_block && !is_sum && ct_map_find(&p->was_segment, row->event) != NULL;
}

static void emit(const struct pass *p, const struct ct_allocation_row *row) {
    const struct ct_allocation_rows *q = p->request;
    if (q->device >= 0 && row->device != q->device)
        return;
    if (row->end != CT_ROW_LIVE && row->end_t_ns < q->from_ns)
        return;
    q->row(q->user, row);
}

static void emit_ended(struct pass *p, const struct ct_object *o, enum ct_row_end end) {
    struct ct_allocation_row row;
    describe(p, o, &row);
    row.end = end;
    row.end_event = p->number;
    row.end_t_ns = p->e->t_ns;
    row.end_stack = end == CT_ROW_FREED && CT_HAS(p->e, stack) ? p->e->stack : 0;
    row.end_thread = CT_HAS(p->e, thread) ? p->e->thread : 0;
    uint64_t *const aside = row.is_sum ? NULL : ct_map_find(&p->aside_at, row.event);
    if (aside) // it was live before the gap, too
        *aside = 0;
    emit(p, &row);
}

// ---- changes in the replay ----------------------------------------------------------------------

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct pass *p = user;
    if (sign > 0 || !p->e || o->kind == CT_KIND_SITE_SUM)
        return; // (without an event: a checkpoint replaces it)
    const uint32_t op = p->e->op;
    emit_ended(p, o,
               op == CT_OP_ALLOC || op == CT_OP_CREATE || op == CT_OP_IMPORT ? CT_ROW_REPLACED
                                                                             : CT_ROW_FREED);
}

// A block ends at its free, or at the next block at its address.
static void note_block(struct pass *p, const struct ct_event *e) {
    const struct ct_object *o;
    const int ends = e->op == CT_OP_BLOCK_FREE || e->op == CT_OP_BLOCK_ALLOC;
    if (ends && CT_HAS(e, ptr) && e->ptr && !(CT_HAS(e, result) && e->result) &&
        (o = ct_live_find(&p->replay.live, CT_KIND_BLOCK, e->ptr)))
        emit_ended(p, o, e->op == CT_OP_BLOCK_FREE ? CT_ROW_FREED : CT_ROW_REPLACED);
}

static int is_row(const struct ct_live *l, const struct ct_object *o) {
    return o && (o->kind == CT_KIND_BLOCK || ct_object_is_counted(l, o));
}

// Forgets segments that have ended, so that the map does not grow with the trace.
static void forget_ended_segments(struct pass *p) {
    const struct ct_live *l = &p->replay.live;
    struct ct_map kept = {0};
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (is_row(l, o) && ct_map_find(&p->was_segment, ct_object_event(o)))
            *ct_map_add(&kept, ct_object_event(o)) = 1;
    }
    ct_map_free(&p->was_segment);
    p->was_segment = kept;
}

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    struct pass *p = user;
    if (sign > 0)
        *ct_map_add(&p->was_segment, ct_object_event(o)) = 1;
}

// ---- gaps ---------------------------------------------------------------------------------------

static int set_aside(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns) {
    struct pass *p = self;
    const struct ct_live *l = &r->live;
    (void)number;
    (void)next_ns;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!is_row(l, o) || o->kind == CT_KIND_SITE_SUM)
            continue;
        CT_HEAP_GROW(p->aside, p->aside_count, p->aside_room);
        struct ct_allocation_row *row = &p->aside[p->aside_count++];
        describe(p, o, row);
        *ct_map_add(&p->aside_at, row->event) = p->aside_count;
    }
    return 1;
}

// Once the checkpoint is complete: emits what it does not have.
static void settle_aside(struct pass *p, const struct ct_event *e, uint64_t number) {
    const struct ct_live *l = &p->replay.live;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        uint64_t *at = is_row(l, o) ? ct_map_find(&p->aside_at, ct_object_event(o)) : NULL;
        if (at)
            *at = 0;
    }
    for (size_t i = 0; i < p->aside_count; i++) {
        struct ct_allocation_row *row = &p->aside[i];
        const uint64_t *at = ct_map_find(&p->aside_at, row->event);
        if (!at || *at != i + 1)
            continue;
        row->end = CT_ROW_UNKNOWN;
        row->end_event = number;
        row->end_t_ns = e ? e->t_ns : UINT64_MAX;
        emit(p, row);
    }
    p->aside_count = 0;
    ct_map_free(&p->aside_at);
}

// ---- the pass -----------------------------------------------------------------------------------

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct pass *p = self;
    if (r->resets != p->resets)
        p->known_from = number;
    p->resets = r->resets;
    if (p->aside_count && !r->live.partial)
        settle_aside(p, e, number);
    p->e = e;
    p->number = number;
    if (p->request->row && ct_op_is_block(e->op))
        note_block(p, e);
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct pass *p = self;
    const struct ct_allocation_rows *q = p->request;
    p->e = NULL;
    if (p->was_segment.count > 4096 && p->was_segment.count > 4 * ct_live_slot_count(&r->live))
        forget_ended_segments(p);
    if (q->event && e->t_ns >= q->from_ns)
        q->event(q->user, r, e, number);
}

static void emit_live(struct pass *p) {
    const struct ct_live *l = &p->replay.live;
    struct ct_allocation_row row;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!is_row(l, o))
            continue;
        describe(p, o, &row);
        emit(p, &row);
    }
}

void ct_allocation_rows_read(const struct ct_allocation_rows *request, struct ct_trace *t) {
    struct pass *p = ct_heap_alloc_zeroed(1, sizeof *p);
    const struct ct_listener a = {.self = p,
                                  .end_ns = request->to_ns + 1,
                                  .before = before_event,
                                  .after = after_event,
                                  .before_gap = request->row ? set_aside : NULL,
                                  .live_changed = request->row ? live_changed : NULL,
                                  .segment_changed = segment_changed};
    p->request = request;
    ct_pass_run_one(&p->replay, t, &a);
    if (p->aside_count)
        settle_aside(p, NULL, UINT64_MAX);
    if (request->row)
        emit_live(p);
    ct_replay_free(&p->replay);
    ct_map_free(&p->was_segment);
    ct_map_free(&p->aside_at);
    free(p->aside);
    free(p);
}

// SPDX-License-Identifier: Apache-2.0
#include "allocator/placements.h"

#include "allocator/recorded_blocks.h"
#include "allocator/release.h"
#include "question/pass.h"

struct placements {
    struct ct_what_if *w;
    struct ct_stream_groups *groups;
    struct ct_map ends; // of address space: how often there
    int device;
    struct ct_release release;
    uint8_t failed[CT_RECORDED_THREADS]; // a call of the thread has failed since its last block
    uint64_t limit_low, limit_high; // the limit lies in [low, high): what was reserved, and refused
};

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    const struct placements *p = user;
    if (sign < 0 && o->kind == CT_KIND_ADDRESS && o->device == p->device)
        ct_stream_groups_note_end(p->groups, o->key, o->bytes);
}

// Follows a call to the driver, before it is applied.
static void note_call(struct placements *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint32_t thread = ct_recorded_thread(e);
    if (ct_release_note(&p->release, r, e, p->device, p->failed[thread % CT_RECORDED_THREADS]) &&
        p->w->limit != UINT64_MAX)
        ct_stream_groups_note_release(p->groups, thread,
                                      ct_release_may_be_garbage(&p->release, p->w));
    const struct ct_torch_region *freed =
        e->op == CT_OP_FREE && CT_HAS(e, ptr) ? ct_recorded_region(r, e->ptr, p->device) : NULL;
    if (freed && !freed->maps)
        ct_stream_groups_note_freed(p->groups, thread, freed->event, freed->bytes);
    if ((e->op != CT_OP_ALLOC && e->op != CT_OP_CREATE) || !CT_HAS(e, result) || e->result != 2 ||
        !CT_HAS(e, bytes) || ct_event_device_index(e) != p->device)
        return;
    p->failed[thread % CT_RECORDED_THREADS] = 1;
    if (e->op == CT_OP_ALLOC)
        ct_stream_groups_note_refusal(p->groups, thread, e->bytes);
}

// A request that fails although no call of it failed exceeds a limit.
static void note_oom(struct placements *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint64_t refused =
        r->pool.device[p->device].own_bytes + ct_allocator_segment_size(&p->w->recorded, e->bytes);
    if (!p->failed[ct_recorded_thread(e) % CT_RECORDED_THREADS] && refused < p->limit_high)
        p->limit_high = refused;
}

// Follows an event of a block: a free before it is applied, all others after that.
static void note_block(struct placements *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint32_t thread = ct_recorded_thread(e);
    const uint64_t own = r->pool.device[p->device].own_bytes;
    if (!ct_recorded_is_block_of(e, p->device))
        return;
    const struct ct_torch_region *region = ct_recorded_region(r, e->ptr, p->device);
    if (p->release.open && !ct_release_is_inside_request(&p->release, p->w, e))
        ct_stream_groups_note_oom(p->groups, p->release.thread);
    p->release.open = 0;
    if (own > p->limit_low)
        p->limit_low = own;
    if (e->op == CT_OP_BLOCK_OOM)
        note_oom(p, r, e);
    if (region && region->maps && e->op == CT_OP_BLOCK_ALLOC)
        ct_recorded_streams_note(&p->groups->recorded,
                                 ct_recorded_streams_space_key(&p->ends, region->reservation), e);
    if (region && !region->maps) {
        const struct ct_block_segment s = {region->event, region->start, region->bytes};
        if (e->op == CT_OP_BLOCK_FREE) {
            ct_stream_groups_note_free(p->groups, &s, e->ptr, e->bytes);
        } else if (e->op == CT_OP_BLOCK_ALLOC) {
            ct_recorded_streams_note(&p->groups->recorded, region->event, e);
            ct_stream_groups_note_alloc(p->groups, &s, thread, e->ptr, e->bytes);
        }
    }
    ct_stream_groups_note_oom(p->groups, thread);
    p->failed[thread % CT_RECORDED_THREADS] = 0;
}

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    (void)number;
    if (e->op == CT_OP_BLOCK_FREE)
        note_block(self, r, e);
    else if (!ct_recorded_is_block(e))
        note_call(self, r, e);
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct placements *p = self;
    (void)number;
    if (e->op == CT_OP_UNRESERVE)
        ++*ct_map_add(&p->ends, e->ptr);
    if (ct_recorded_is_block(e) && e->op != CT_OP_BLOCK_FREE)
        note_block(p, r, e);
}

static void follow_placements(struct placements *p, struct ct_trace *t) {
    const struct ct_listener a = {.self = p,
                                  .before = before_event,
                                  .after = after_event,
                                  .segment_changed = segment_changed};
    ct_pass_run_one(NULL, t, &a);
    ct_map_free(&p->ends);
}

// The limit in an interval: the roundest part of the device, as people set it, else the least.
static uint64_t roundest(uint64_t low, uint64_t high, uint64_t total) {
    static const unsigned steps[] = {100, 50, 10, 1}; // thousandths
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (unsigned part = steps[i]; part <= 1000; part += steps[i]) {
            const uint64_t limit = (uint64_t)((double)total * part / 1000);
            if (limit >= low && limit < high)
                return limit;
        }
    return low;
}

static void init_groups(struct ct_stream_groups *g, const struct ct_what_if *w,
                        const struct ct_trace *t) {
    ct_stream_groups_init(g, &w->recorded);
    g->order_is_known = w->order_is_known;
    g->by_creation = w->by_creation;
    g->recorded.are_recorded = ct_definitions_info(&t->definitions, "torch.block_streams") != NULL;
}

int ct_placements_find_groups(struct ct_stream_groups *g, struct ct_what_if *w, struct ct_trace *t,
                              uint64_t total) {
    struct placements p = {
        .w = w, .groups = g, .device = w->request.device, .limit_high = UINT64_MAX};
    init_groups(g, w, t);
    follow_placements(&p, t);
    if (w->limit == UINT64_MAX && p.limit_high > p.limit_low && p.limit_high != UINT64_MAX) {
        // What a limit freed looked like empty_cache().
        w->limit = roundest(p.limit_low, p.limit_high, total);
        w->limit_is_inferred = 1;
        ct_stream_groups_free(g);
        init_groups(g, w, t);
        p = (struct placements){
            .w = w, .groups = g, .device = w->request.device, .limit_high = UINT64_MAX};
        follow_placements(&p, t);
    }
    return ct_stream_groups_finish(g);
}

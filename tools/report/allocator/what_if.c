// SPDX-License-Identifier: Apache-2.0
#include "allocator/what_if.h"

#include <stdio.h>
#include <string.h>

#include "allocator/recorded.h"
#include "allocator/stream_groups.h"
#include "question/pass.h"

// ---- the first pass over a recording ------------------------------------------------------------
// Finds which segments are of one stream, by where PyTorch placed blocks, and the limit of
// PyTorch's own that its refusals show.

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
    const uint32_t thread = CT_GET(e, thread);
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
    if (!p->failed[CT_GET(e, thread) % CT_RECORDED_THREADS] && refused < p->limit_high)
        p->limit_high = refused;
}

// Follows an event of a block: a free before it is applied, all others after that.
static void note_block(struct placements *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
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

// `total`: bytes of the recorded device. Sets the limit of `w` if no setting has it. Returns 0, or
// -1: there are more streams than a model follows. The caller frees the groups in both cases.
static int find_groups(struct ct_stream_groups *g, struct ct_what_if *w, struct ct_trace *t,
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

// ---- the model with other settings --------------------------------------------------------------

// The settings of the recorded process. Returns -1, with the reason, if they are not modelled.
static int read_settings(struct ct_what_if *w, const struct ct_trace *t) {
    const struct ct_string *set =
        ct_definitions_info(&t->definitions, "process.env.PYTORCH_CUDA_ALLOC_CONF");
    char error[CT_ALLOCATOR_SETTINGS_ERROR];
    if (!set)
        set = ct_definitions_info(&t->definitions, "process.env.PYTORCH_ALLOC_CONF");
    w->recorded = ct_allocator_settings_default();
    if (!set || !ct_allocator_settings_parse(&w->recorded, set->at, set->length, error))
        return 0;
    snprintf(w->settings_error, sizeof w->settings_error, "of the recorded settings: %s", error);
    return -1;
}

static uint64_t find_total(const struct ct_what_if *w, const struct ct_trace *t) {
    uint64_t bytes = 0;
    (void)ct_definitions_device_number(&t->definitions, w->request.device, "total_bytes", &bytes);
    return bytes;
}

// ---- the answer ---------------------------------------------------------------------------------

static enum ct_what_if_state judge(const struct ct_what_if *w) {
    if (!w->blocks)
        return CT_WHAT_IF_NO_BLOCKS;
    if (!w->capacity)
        return CT_WHAT_IF_NO_CAPACITY;
    if (ct_what_if_permille(w) > CT_WHAT_IF_BOUND_PERMILLE)
        return CT_WHAT_IF_DEVIATES;
    if (w->not_reproduced)
        return CT_WHAT_IF_OOM_NOT_REPRODUCED;
    return CT_WHAT_IF_DONE;
}

unsigned ct_what_if_permille(const struct ct_what_if *w) {
    const uint64_t peak = w->recorded_reserved_peak;
    if (!w->deviation)
        return 0;
    if (!peak || w->deviation > peak)
        return 1000;
    return (unsigned)(((double)w->deviation * 1000 + (double)peak - 1) / (double)peak);
}

static int serves_all(const struct ct_what_if *w) {
    for (int i = CT_WHAT_IF_ASKED; i < CT_WHAT_IF_SIDES; i++)
        if (w->side[i].failures)
            return 0;
    return 1;
}

static int fails_surely(const struct ct_what_if *w) {
    for (int i = CT_WHAT_IF_ASKED; i < CT_WHAT_IF_SIDES; i++)
        if (!w->side[i].failures)
            return 0;
    return 1;
}

// Whatever the requests may have been must lead to the answer, and the margin must
// not change it.
enum ct_what_if_answer ct_what_if_judge(const struct ct_what_if *w) {
    if (w->state != CT_WHAT_IF_DONE || w->ambiguous)
        return CT_WHAT_IF_UNKNOWN;
    if (serves_all(w) && w->serves_with_less)
        return CT_WHAT_IF_FITS;
    return fails_surely(w) && !w->serves_with_more ? CT_WHAT_IF_FITS_NOT : CT_WHAT_IF_UNKNOWN;
}

// ---- the passes ---------------------------------------------------------------------------------

static void run_all(struct ct_what_if *w, struct ct_trace *t, const struct ct_stream_groups *g,
                    uint64_t total, uint64_t less, uint64_t more) {
    ct_model_pass_run(w, t, g, total, less, more);
    w->state = judge(w);
}

// The N of PyTorch 2.N; 0: not known, or older.
static unsigned minor_version(const struct ct_trace *t) {
    const struct ct_string *version = ct_definitions_info(&t->definitions, "torch.version");
    unsigned minor = 0;
    if (!version || version->length < 3 || memcmp(version->at, "2.", 2) != 0)
        return 0;
    for (size_t i = 2;
         i < version->length && i < 5 && version->at[i] >= '0' && version->at[i] <= '9'; i++)
        minor = minor * 10 + (unsigned)(version->at[i] - '0');
    return minor;
}

// The asked settings once more, with what the driver has less or more by a margin.
static void try_margins(struct ct_what_if *w, const struct ct_what_if *before, struct ct_trace *t,
                        const struct ct_stream_groups *g, uint64_t total) {
    struct ct_what_if margin = *before;
    const int serves = serves_all(w);
    const uint64_t least = w->capacity / 1000 * CT_WHAT_IF_MARGIN_PERMILLE;
    margin.by_creation = w->by_creation;
    margin.each = NULL;
    w->serves_with_less = w->serves_with_more = serves;
    w->margin = w->uncertain_sizes && w->deviation < least ? least : w->deviation;
    if (w->state != CT_WHAT_IF_DONE || !w->margin)
        return;
    run_all(&margin, t, g, total, serves ? w->margin : 0, serves ? 0 : w->margin);
    if (serves)
        w->serves_with_less = serves_all(&margin);
    else
        w->serves_with_more = !fails_surely(&margin);
}

// Of two free blocks of one size, that with the lower address was taken, until a change of May 2026
// (pull request 183591) made it that of the older segment: between 2.11 and 2.15.
static void set_order(struct ct_what_if *w, unsigned minor) {
    w->by_creation = minor >= 13;
    w->order_is_known = (minor && minor <= 11) || minor == 15;
}

void ct_what_if_run(struct ct_what_if *w, struct ct_trace *t) {
    struct ct_stream_groups groups;
    if (t->overwritten_events || t->missing_events || t->trimmed_before) {
        w->state = CT_WHAT_IF_NO_BEGINNING;
        return;
    }
    if (read_settings(w, t)) {
        w->state = CT_WHAT_IF_NO_SETTINGS;
        return;
    }
    const unsigned minor = minor_version(t);
    ct_allocator_settings_fit_version(&w->recorded, minor);
    ct_allocator_settings_fit_version(&w->request.asked, minor);
    set_order(w, minor);
    const uint64_t total = find_total(w, t);
    w->limit = ct_model_pass_allowed(w, CT_WHAT_IF_CHECK, total);
    if (find_groups(&groups, w, t, total)) {
        ct_stream_groups_free(&groups);
        w->state = CT_WHAT_IF_TOO_MANY_STREAMS;
        return;
    }
    w->passed_over = groups.passed_over;
    w->contradicted = groups.contradicted;
    w->waited = groups.waited;
    const struct ct_what_if before = *w;
    run_all(w, t, &groups, total, 0, 0);
    if (!w->order_is_known &&
        (w->state == CT_WHAT_IF_DEVIATES || w->state == CT_WHAT_IF_OOM_NOT_REPRODUCED)) {
        struct ct_what_if other = before;
        other.by_creation = !other.by_creation;
        other.each = NULL;
        run_all(&other, t, &groups, total, 0, 0);
        if (other.state == CT_WHAT_IF_DONE) {
            *w = before;
            w->by_creation = !before.by_creation;
            run_all(w, t, &groups, total, 0, 0);
        }
    }
    try_margins(w, &before, t, &groups, total);
    ct_stream_groups_free(&groups);
}

// SPDX-License-Identifier: Apache-2.0
#include "allocator/what_if.h"

#include "allocator/block_ids.h"
#include "allocator/expandable_segments.h"
#include "allocator/model.h"
#include "allocator/stream_groups.h"
#include "replay/replay.h"
#include "replay/torch_segments.h"

_Static_assert((int)CT_WHAT_IF_SIDES == (int)CT_BLOCK_IDS, "a block in each model");

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

// ---- segments of the recording ------------------------------------------------------------------

// The memory that a block lies in, or NULL if it is none of PyTorch's own.
static const struct ct_torch_region *find_region(const struct ct_replay *r, uint64_t address,
                                                 int device) {
    const struct ct_torch_region *region = ct_torch_pool_find_segment(&r->pool, address);
    return region && !region->foreign && !region->async && region->device == device ? region : NULL;
}

static int is_of_block(const struct ct_event *e) {
    return e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_FREE || e->op == CT_OP_BLOCK_OOM;
}

static int is_of_device(const struct ct_event *e, int device) {
    return is_of_block(e) && ct_event_device_index(e) == device && CT_HAS(e, bytes);
}

static uint32_t thread_number(const struct ct_event *e) {
    return CT_HAS(e, thread) ? e->thread : 0;
}

enum { THREADS = 256 }; // threads whose numbers are equal but for multiples share a state

// ---- segments that are freed --------------------------------------------------------------------

// A thread frees segments, and none of its calls to the driver has failed since its last block:
// empty_cache(), or, with a limit of PyTorch's own, inside a request.
struct release {
    int open;
    uint32_t thread;
    int grew;        // then the thread asked the driver for memory
    uint64_t before; // bytes that PyTorch had reserved
};

// Follows a call to the driver. `failed`: whether one has failed since the thread's last block.
// Returns whether a release begins.
static int note_release(struct release *f, const struct ct_replay *r, const struct ct_event *e,
                        int device, int failed) {
    if (f->open && f->thread == thread_number(e))
        f->grew |= e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE;
    if ((e->op != CT_OP_FREE && e->op != CT_OP_UNMAP) || (CT_HAS(e, result) && e->result) ||
        !CT_HAS(e, ptr) || failed || f->open || !find_region(r, e->ptr, device))
        return 0;
    *f = (struct release){
        .open = 1, .thread = thread_number(e), .before = r->pool.device[device].own_bytes};
    return 1;
}

// Whether an event of a block ends the request inside which the segments were freed.
static int is_inside_request(const struct release *f, const struct ct_what_if *w,
                             const struct ct_event *e) {
    const struct ct_allocator_settings *s = &w->recorded;
    if (w->limit == UINT64_MAX || f->thread != thread_number(e) || e->op == CT_OP_BLOCK_FREE)
        return 0;
    if (e->op == CT_OP_BLOCK_OOM)
        return 1;
    if (!f->grew)
        return 0;
    return f->before + ct_allocator_segment_size(s, e->bytes) > w->limit ||
           (s->collect_ppm && (double)f->before > (double)s->collect_ppm / 1e6 * (double)w->limit);
}

// ---- the first pass: which segments are of one stream -------------------------------------------

struct first_pass {
    struct ct_what_if *w;
    struct ct_stream_groups *groups;
    int device;
    struct release release;
    uint8_t failed[THREADS];        // a call of the thread has failed since its last block
    uint64_t limit_low, limit_high; // the limit lies in [low, high): what was reserved, and refused
};

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    const struct first_pass *p = user;
    if (sign < 0 && o->kind == CT_KIND_ADDRESS && o->device == p->device)
        ct_stream_groups_note_end(p->groups, o->key, o->bytes);
}

// Follows a call to the driver, before it is applied.
static void note_call(struct first_pass *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint32_t thread = thread_number(e);
    if (note_release(&p->release, r, e, p->device, p->failed[thread % THREADS]) &&
        p->w->limit != UINT64_MAX)
        ct_stream_groups_note_release(p->groups, thread);
    const struct ct_torch_region *freed =
        e->op == CT_OP_FREE && CT_HAS(e, ptr) ? find_region(r, e->ptr, p->device) : NULL;
    if (freed && !freed->maps)
        ct_stream_groups_note_freed(p->groups, thread, freed->event, freed->bytes);
    if ((e->op != CT_OP_ALLOC && e->op != CT_OP_CREATE) || !CT_HAS(e, result) || e->result != 2 ||
        !CT_HAS(e, bytes) || ct_event_device_index(e) != p->device)
        return;
    p->failed[thread % THREADS] = 1;
    if (e->op == CT_OP_ALLOC)
        ct_stream_groups_note_refusal(p->groups, thread, e->bytes);
}

// A request that fails although no call of it failed exceeds a limit.
static void note_oom(struct first_pass *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint64_t refused =
        r->pool.device[p->device].own_bytes + ct_allocator_segment_size(&p->w->recorded, e->bytes);
    if (!p->failed[thread_number(e) % THREADS] && refused < p->limit_high)
        p->limit_high = refused;
}

// Follows an event of a block: a free before it is applied, all others behind that.
static void note_block(struct first_pass *p, const struct ct_replay *r, const struct ct_event *e) {
    const uint32_t thread = thread_number(e);
    const uint64_t own = r->pool.device[p->device].own_bytes;
    if (!is_of_device(e, p->device))
        return;
    const struct ct_torch_region *region = find_region(r, e->ptr, p->device);
    if (p->release.open && !is_inside_request(&p->release, p->w, e))
        ct_stream_groups_note_oom(p->groups, p->release.thread);
    p->release.open = 0;
    if (own > p->limit_low)
        p->limit_low = own;
    if (e->op == CT_OP_BLOCK_OOM)
        note_oom(p, r, e);
    if (region && !region->maps) {
        const struct ct_block_segment s = {region->event, region->start, region->bytes};
        if (e->op == CT_OP_BLOCK_FREE)
            ct_stream_groups_note_free(p->groups, &s, e->ptr, e->bytes);
        else if (e->op == CT_OP_BLOCK_ALLOC)
            ct_stream_groups_note_alloc(p->groups, &s, thread, e->ptr, e->bytes);
    }
    ct_stream_groups_note_oom(p->groups, thread);
    p->failed[thread % THREADS] = 0;
}

static void start_replay(struct ct_replay *r, struct ct_trace *t) {
    ct_replay_init(r, NULL, NULL);
    r->tiles = 1;
    ct_trace_rewind(t);
}

static void follow_placements(struct first_pass *p, struct ct_trace *t) {
    struct ct_replay r;
    const struct ct_event *e;
    uint64_t number;
    start_replay(&r, t);
    r.watch = (struct ct_segment_watch){NULL, segment_changed, p};
    while ((e = ct_replay_next(&r, t, &number))) {
        if (e->op == CT_OP_BLOCK_FREE)
            note_block(p, &r, e);
        else if (!is_of_block(e))
            note_call(p, &r, e);
        ct_replay_apply(&r, e, number);
        if (is_of_block(e) && e->op != CT_OP_BLOCK_FREE)
            note_block(p, &r, e);
    }
    ct_replay_free(&r);
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

static int find_groups(struct ct_stream_groups *g, struct ct_what_if *w, struct ct_trace *t,
                       uint64_t total) {
    struct first_pass p = {
        .w = w, .groups = g, .device = w->request.device, .limit_high = UINT64_MAX};
    ct_stream_groups_init(g, &w->recorded);
    follow_placements(&p, t);
    if (w->limit == UINT64_MAX && p.limit_high > p.limit_low && p.limit_high != UINT64_MAX) {
        // What a limit freed looked like empty_cache().
        w->limit = roundest(p.limit_low, p.limit_high, total);
        w->limit_is_inferred = 1;
        ct_stream_groups_free(g);
        ct_stream_groups_init(g, &w->recorded);
        p = (struct first_pass){
            .w = w, .groups = g, .device = w->request.device, .limit_high = UINT64_MAX};
        follow_placements(&p, t);
    }
    return ct_stream_groups_finish(g);
}

// ---- the second pass: the models ----------------------------------------------------------------

// What a thread did last.
struct thread_state {
    uint16_t group[CT_MODEL_CLASSES]; // of its last block
    uint8_t failed;                   // a call to the driver ran out of memory since its last block
    uint64_t space;                   // address space that it reserved since its last block
    uint64_t mapped;                  // address space into which it mapped memory since then
    // The group + 1, by class, whose address space it gave back since then, after a failed call.
    uint32_t dropped[CT_MODEL_CLASSES];
};

struct second_pass {
    struct ct_what_if *w;
    const struct ct_stream_groups *groups;
    struct ct_replay replay;
    struct ct_allocator_model model[CT_WHAT_IF_SIDES];
    struct ct_block_ids ids;
    // Address space of expandable segments -> (its group + 1) * CT_MODEL_CLASSES + its class; 0: it
    // has ended.
    struct ct_map spaces;
    uint32_t space_groups[CT_MODEL_CLASSES];
    struct thread_state threads[THREADS];
    uint64_t refused_untracked; // the least that is untracked, if the last calls failed for that
    unsigned trials;            // of requests that failed, in copies of the model
    struct release release;
    uint64_t less, more; // by so much the driver has less or more than was recorded
};

static struct thread_state *thread_of(struct second_pass *p, const struct ct_event *e) {
    return &p->threads[thread_number(e) % THREADS];
}

// The driver's memory that is not PyTorch's. A reading may fall between a call and its event, so
// what the calls of a request show is above it: what failed did not fit, what succeeded did.
static uint64_t other_bytes(const struct second_pass *p, uint64_t *total) {
    const int device = p->w->request.device;
    const struct ct_breakdown s = ct_replay_split(&p->replay, device);
    const uint64_t own = p->replay.pool.device[device].own_bytes;
    uint64_t untracked = s.used_known && s.used > s.tracked ? s.used - s.tracked : 0;
    if (untracked < p->refused_untracked)
        untracked = p->refused_untracked;
    *total = s.used_known ? s.total : 0;
    if (*total > s.tracked && untracked > *total - s.tracked)
        untracked = *total - s.tracked;
    return untracked + (s.tracked > own ? s.tracked - own : 0);
}

static void set_room(struct second_pass *p) {
    struct ct_what_if *w = p->w;
    uint64_t total;
    const uint64_t others = other_bytes(p, &total);
    const uint64_t capacity = w->request.capacity ? w->request.capacity : total;
    if (others > w->other_bytes)
        w->other_bytes = others;
    if (!w->capacity)
        w->capacity = capacity;
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        const uint64_t its = i == CT_WHAT_IF_CHECK && total ? total : capacity + p->more;
        const uint64_t taken = others + (i == CT_WHAT_IF_CHECK ? 0 : p->less);
        p->model[i].room = its > taken ? its - taken : 0;
    }
}

static void note_refusal_by_driver(struct second_pass *p, const struct ct_event *e) {
    const struct ct_breakdown s = ct_replay_split(&p->replay, p->w->request.device);
    if (!s.used_known || !CT_HAS(e, bytes) || ct_event_device_index(e) != p->w->request.device ||
        e->bytes > s.total || s.tracked > s.total - e->bytes)
        return;
    const uint64_t least = s.total - s.tracked - e->bytes + 1;
    if (least > p->refused_untracked)
        p->refused_untracked = least;
}

static void note_failure(struct second_pass *p, int side, const struct ct_event *e,
                         uint64_t number) {
    struct ct_what_if_side *s = &p->w->side[side];
    const struct ct_allocator_model *m = &p->model[side];
    const uint64_t bytes = ct_allocator_round(&m->settings, e->bytes);
    const uint64_t size =
        m->settings.expandable ? bytes : ct_allocator_segment_size(&m->settings, bytes);
    const uint64_t most = m->room < m->allowed ? m->room : m->allowed;
    const uint64_t left = most > m->reserved ? most - m->reserved : 0;
    if (!s->failures++)
        s->first_failure = (struct ct_what_if_failure){.event = number,
                                                       .t_ns = e->t_ns,
                                                       .bytes = e->bytes,
                                                       .missing = size > left ? size - left : 0,
                                                       .recorded = e->op == CT_OP_BLOCK_OOM};
}

static void note_left(struct ct_what_if_side *s, const struct ct_allocator_model *m) {
    const uint64_t most = m->room < m->allowed ? m->room : m->allowed;
    const uint64_t left = most > m->reserved ? most - m->reserved : 0;
    if (left < s->least_left)
        s->least_left = left;
}

// A request in one model. Returns the block, or CT_NO_BLOCK.
static uint32_t request_block(struct second_pass *p, int side, uint32_t group, uint64_t bytes) {
    struct ct_allocator_model *m = &p->model[side];
    const uint64_t before = m->driver_allocs;
    const uint32_t block = ct_allocator_model_alloc(m, group, bytes);
    if (m->driver_allocs != before)
        note_left(&p->w->side[side], m);
    return block;
}

// In the check, a request that succeeded in the recording must get its memory, whatever the driver
// is thought to have, so that the rest can be compared.
static uint32_t force_block(struct second_pass *p, uint32_t group, uint64_t bytes) {
    struct ct_allocator_model *m = &p->model[CT_WHAT_IF_CHECK];
    const uint64_t room = m->room, allowed = m->allowed;
    p->w->not_reproduced++;
    m->room = m->allowed = CT_MODEL_MOST_BYTES * 2;
    const uint32_t block = ct_allocator_model_alloc(m, group, bytes);
    m->room = room;
    m->allowed = allowed;
    return block;
}

// The most that the request of a block can have been: where sizes are rounded to steps, a block
// between two of them was larger than what it was taken for.
static uint64_t most_request(const struct ct_allocator_settings *s, uint64_t bytes) {
    const uint64_t next = ct_allocator_round(s, bytes);
    uint64_t low = 0, high = bytes / CT_ALLOCATOR_MIN_BLOCK;
    if (bytes == s->max_split) // the segment of a request just below it
        return bytes - CT_ALLOCATOR_MIN_BLOCK;
    if (next <= bytes)
        return bytes;
    while (high - low > 1) { // in multiples of the smallest block: `low` is rounded to no more
        const uint64_t middle = low + (high - low) / 2;
        if (ct_allocator_round(s, middle * CT_ALLOCATOR_MIN_BLOCK) <= bytes)
            low = middle;
        else
            high = middle;
    }
    return low * CT_ALLOCATOR_MIN_BLOCK;
}

// The least that a block's request can have been, if it got a whole free block.
static uint64_t least_request(const struct ct_allocator_settings *s, uint64_t bytes, int whole) {
    uint64_t least = bytes;
    if (bytes > CT_ALLOCATOR_SMALL && whole && !s->expandable) {
        const uint64_t slack =
            bytes >= s->max_split ? s->max_rounding - CT_ALLOCATOR_MIN_BLOCK : CT_ALLOCATOR_SMALL;
        least = bytes > slack + CT_ALLOCATOR_SMALL ? bytes - slack
                                                   : CT_ALLOCATOR_SMALL + CT_ALLOCATOR_MIN_BLOCK;
    }
    if (!ct_allocator_has_divisions(s))
        return least;
    // Rounded up to a step of at most half of it: the request was above the step before.
    uint64_t low = least / 2, high = least;
    while (high - low > CT_ALLOCATOR_MIN_BLOCK) {
        const uint64_t middle =
            (low + (high - low) / 2) / CT_ALLOCATOR_MIN_BLOCK * CT_ALLOCATOR_MIN_BLOCK;
        if (middle <= low || ct_allocator_round(s, middle) >= least)
            high = middle > low ? middle : low + CT_ALLOCATOR_MIN_BLOCK;
        else
            low = middle;
    }
    return high;
}

// The request of a block in a model.
static uint64_t request_size(const struct second_pass *p, int side, const struct ct_event *e,
                             uint64_t number, uint64_t most) {
    if (side <= CT_WHAT_IF_ASKED || side == CT_WHAT_IF_ASKED_APART)
        return most;
    uint64_t least =
        least_request(&p->w->recorded, e->bytes, p->model[CT_WHAT_IF_CHECK].took_whole);
    if (least > most)
        least = most;
    if (side == CT_WHAT_IF_ASKED_LEAST)
        return least;
    const uint64_t steps = (most - least) / CT_ALLOCATOR_MIN_BLOCK + 1;
    return most -
           ct_hash_mix(number * CT_WHAT_IF_SIDES + (uint64_t)side) % steps * CT_ALLOCATOR_MIN_BLOCK;
}

static void release_cached(struct second_pass *p) {
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
        if (!p->w->side[i].stopped)
            ct_allocator_model_release_cached(&p->model[i]);
}

static void alloc_block(struct second_pass *p, const struct ct_event *e, uint64_t number,
                        uint32_t group, uint32_t apart) {
    struct ct_block_id *id = ct_block_ids_find(&p->ids, e->ptr);
    const uint64_t most = most_request(&p->w->recorded, e->bytes);
    if (!id)
        id = ct_block_ids_add(&p->ids, e->ptr);
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        id->in[i] = CT_NO_BLOCK;
        if (p->w->side[i].stopped)
            continue;
        const uint64_t bytes = request_size(p, i, e, number, most);
        p->w->uncertain_sizes += i == CT_WHAT_IF_ASKED_LEAST && bytes < most;
        id->in[i] = request_block(p, i, i == CT_WHAT_IF_ASKED_APART ? apart : group, bytes);
        if (id->in[i] != CT_NO_BLOCK)
            continue;
        note_failure(p, i, e, number);
        if (i == CT_WHAT_IF_CHECK)
            id->in[i] = force_block(p, group, bytes);
        else
            p->w->side[i].stopped = 1;
    }
}

static void free_block(struct second_pass *p, const struct ct_event *e) {
    struct ct_block_id *id = ct_block_ids_find(&p->ids, e->ptr);
    if (!id)
        return;
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
        if (id->in[i] != CT_NO_BLOCK && !p->w->side[i].stopped)
            ct_allocator_model_free_block(&p->model[i], id->in[i]);
    ct_block_ids_remove(&p->ids, id);
}

static void fail_block(struct second_pass *p, const struct ct_event *e, uint64_t number,
                       uint32_t group) {
    struct ct_what_if *w = p->w;
    w->recorded_ooms++;
    w->recorded_oom =
        (struct ct_what_if_failure){.event = number, .t_ns = e->t_ns, .bytes = e->bytes};
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        if (w->side[i].stopped)
            continue;
        const uint32_t block = request_block(p, i, group, e->bytes);
        if (block == CT_NO_BLOCK) {
            note_failure(p, i, e, number);
            continue;
        }
        w->side[i].served++;
        w->not_reproduced += i == CT_WHAT_IF_CHECK;
        ct_allocator_model_free_block(&p->model[i], block);
    }
}

// What PyTorch has reserved, without what lies in memory of another allocator.
static uint64_t reported_bytes(const struct second_pass *p, const struct ct_event *e) {
    const struct ct_torch_pool_device *d = &p->replay.pool.device[p->w->request.device];
    const uint64_t foreign = d->segment_bytes - d->own_bytes;
    if (!CT_HAS(e, reserved_bytes))
        return d->own_bytes;
    return e->reserved_bytes > foreign ? e->reserved_bytes - foreign : 0;
}

// Compares the check with what PyTorch reports.
static void compare(struct second_pass *p, const struct ct_event *e, uint64_t number) {
    struct ct_what_if *w = p->w;
    const uint64_t reported = reported_bytes(p, e);
    uint64_t reserved[CT_WHAT_IF_SIDES];
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
        reserved[i] = p->model[i].reserved;
    const uint64_t ours = reserved[CT_WHAT_IF_CHECK];
    const uint64_t off = ours > reported ? ours - reported : reported - ours;
    if (off > w->deviation) {
        w->deviation = off;
        w->deviation_event = number;
    }
    if (reported > w->recorded_reserved_peak)
        w->recorded_reserved_peak = reported;
    if (CT_HAS(e, allocated_bytes) && e->allocated_bytes > w->recorded_allocated_peak)
        w->recorded_allocated_peak = e->allocated_bytes;
    if (w->each)
        w->each(w->user, number, reported, reserved);
}

static enum ct_model_class class_of(uint64_t bytes) {
    return bytes <= CT_ALLOCATOR_SMALL ? CT_MODEL_SMALL : CT_MODEL_LARGE;
}

// The group of a new address space. PyTorch reserves one for a stream that has none, or has no place
// left in those that it has.
static uint32_t place_space(struct second_pass *p, enum ct_model_class class, uint64_t bytes) {
    const struct ct_allocator_model *m = &p->model[CT_WHAT_IF_CHECK];
    uint32_t empty = CT_NO_BLOCK, *groups = &p->space_groups[class];
    for (uint32_t i = 0; i < *groups; i++) {
        if (ct_allocator_model_is_empty(m, i, class))
            empty = i;
        else if (!ct_expandable_has_place(m, i, class, bytes))
            return i;
    }
    if (empty != CT_NO_BLOCK || *groups == CT_STREAM_GROUPS_MOST)
        return empty == CT_NO_BLOCK ? 0 : empty;
    return (*groups)++;
}

static uint32_t group_of_space(struct second_pass *p, const struct thread_state *thread,
                               uint64_t space, enum ct_model_class class, uint64_t bytes) {
    uint64_t *known = ct_map_add(&p->spaces, space);
    if (!*known) {
        const int again = space == thread->space && thread->dropped[class];
        const uint32_t group = again ? thread->dropped[class] - 1 : place_space(p, class, bytes);
        *known = (uint64_t)(group + 1) * CT_MODEL_CLASSES + class;
    }
    return (uint32_t)(*known / CT_MODEL_CLASSES) - 1;
}

static uint32_t find_group(struct second_pass *p, const struct thread_state *thread,
                           const struct ct_torch_region *region, enum ct_model_class class,
                           uint64_t bytes) {
    if (region->maps)
        return group_of_space(p, thread, region->reservation, class, bytes);
    const struct ct_grouped_segment *s = ct_stream_groups_find(p->groups, region->event);
    return s ? s->group : 0;
}

// The same, with as many streams as there can be.
static uint32_t find_apart(const struct second_pass *p, const struct ct_torch_region *region,
                           uint32_t group) {
    const struct ct_grouped_segment *s =
        region->maps ? NULL : ct_stream_groups_find(p->groups, region->event);
    return s ? s->apart : group;
}

// Whether a request of a group fails in a copy of a model. `left`: and leaves it with so much
// reserved; UINT64_MAX: or whatever.
static int fails_in(struct second_pass *p, int side, uint32_t group, const struct ct_event *e,
                    uint64_t left) {
    struct ct_allocator_model copy;
    ct_allocator_model_copy(&copy, &p->model[side]);
    const int fails = ct_allocator_model_alloc(&copy, group, e->bytes) == CT_NO_BLOCK &&
                      (left == UINT64_MAX || copy.reserved == left);
    ct_allocator_model_free(&copy);
    p->trials++;
    return fails;
}

// Copies take time: where many requests fail, the last ones have the group of the thread's block.
enum { MOST_TRIALS = 4096 };

// The groups that a request which failed can be of.
struct candidates {
    uint32_t list[CT_STREAM_GROUPS_MOST];
    uint32_t count;
};

// That of the address space that was mapped or reserved for it, else that of the thread's last
// block, and each in which it fails and leaves what PyTorch reports.
static void guess_groups(struct second_pass *p, const struct thread_state *thread,
                         const struct ct_event *e, struct candidates *c) {
    const enum ct_model_class class = class_of(e->bytes);
    const uint32_t arenas = p->model[CT_WHAT_IF_CHECK].arena_count;
    const uint64_t left = reported_bytes(p, e);
    const uint64_t space = thread->mapped ? thread->mapped : thread->space;
    const uint32_t last =
        space ? group_of_space(p, thread, space, class, e->bytes) : thread->group[class];
    c->count = 0;
    if (p->trials < MOST_TRIALS && fails_in(p, CT_WHAT_IF_CHECK, last, e, left))
        c->list[c->count++] = last;
    if (!c->count || !space)
        for (uint32_t group = 0; group * CT_MODEL_CLASSES < arenas && p->trials < MOST_TRIALS &&
                                 c->count < CT_STREAM_GROUPS_MOST;
             group++)
            if (group != last && fails_in(p, CT_WHAT_IF_CHECK, group, e, left))
                c->list[c->count++] = group;
    if (!c->count)
        c->list[c->count++] = last;
}

// Whether the candidates fare differently with the asked settings.
static int is_ambiguous(struct second_pass *p, const struct candidates *c,
                        const struct ct_event *e) {
    for (int side = CT_WHAT_IF_ASKED; side < CT_WHAT_IF_SIDES; side++) {
        if (p->w->side[side].stopped)
            continue;
        const int first = fails_in(p, side, c->list[0], e, UINT64_MAX);
        for (uint32_t i = 1; i < c->count; i++)
            if (p->trials >= MOST_TRIALS || fails_in(p, side, c->list[i], e, UINT64_MAX) != first)
                return 1;
    }
    return 0;
}

static void note_space(struct second_pass *p, struct thread_state *thread,
                       const struct ct_event *e) {
    struct ct_tree_range space;
    if (e->op == CT_OP_RESERVE)
        thread->space = e->ptr;
    if (e->op == CT_OP_MAP && ct_range_tree_find(&p->replay.pool.reserved, e->ptr, &space) &&
        space.start <= e->ptr)
        thread->mapped = space.start;
    if (e->op != CT_OP_UNRESERVE)
        return;
    uint64_t *known = ct_map_find(&p->spaces, e->ptr);
    if (!known || !*known)
        return;
    if (thread->failed)
        thread->dropped[*known % CT_MODEL_CLASSES] = (uint32_t)(*known / CT_MODEL_CLASSES);
    *known = 0;
}

static void apply_block(struct second_pass *p, const struct ct_event *e, uint64_t number) {
    struct ct_what_if *w = p->w;
    struct thread_state *thread = thread_of(p, e);
    const enum ct_model_class class = class_of(e->bytes);
    const struct ct_torch_region *region = NULL;
    if (p->release.open && !is_inside_request(&p->release, w, e))
        release_cached(p);
    p->release.open = 0;
    if (e->op == CT_OP_BLOCK_FREE) {
        free_block(p, e);
    } else {
        set_room(p);
        if (e->op == CT_OP_BLOCK_OOM) {
            struct candidates c;
            guess_groups(p, thread, e, &c);
            w->ambiguous += c.count > 1 && is_ambiguous(p, &c, e);
            fail_block(p, e, number, c.list[0]);
        } else if (e->op == CT_OP_BLOCK_ALLOC &&
                   (region = find_region(&p->replay, e->ptr, w->request.device))) {
            thread->group[class] = (uint16_t)find_group(p, thread, region, class, e->bytes);
            for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
                p->model[i].hint = region->maps || w->by_creation ? 0 : region->start;
            alloc_block(p, e, number, thread->group[class],
                        find_apart(p, region, thread->group[class]));
            w->blocks++;
        } else {
            w->outside++;
        }
        thread->failed = 0;
        thread->space = thread->mapped = 0;
        memset(thread->dropped, 0, sizeof thread->dropped);
        p->refused_untracked = 0;
    }
    compare(p, e, number);
}

static void note_driver_call(struct second_pass *p, const struct ct_event *e) {
    struct thread_state *thread = thread_of(p, e);
    note_release(&p->release, &p->replay, e, p->w->request.device, thread->failed);
    if (CT_HAS(e, result) && e->result) {
        if (e->result == 2 && (e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE)) {
            thread->failed = 1;
            note_refusal_by_driver(p, e);
        }
        return;
    }
    if (CT_HAS(e, ptr))
        note_space(p, thread, e);
}

// What PyTorch's own limit leaves in a model.
static uint64_t find_allowed(const struct ct_what_if *w, int side, uint64_t total) {
    const struct ct_allocator_settings *s =
        side < CT_WHAT_IF_ASKED ? &w->recorded : &w->request.asked;
    const uint64_t its =
        side != CT_WHAT_IF_CHECK && w->request.capacity ? w->request.capacity : total;
    if (s->fraction_ppm)
        return (uint64_t)((double)s->fraction_ppm / 1e6 * (double)its);
    // Not a setting: the program sets it as a part of the device, whatever the settings are.
    if (w->limit_is_inferred && total)
        return (uint64_t)((double)w->limit / (double)total * (double)its);
    return UINT64_MAX;
}

static void copy_side(struct ct_what_if_side *s, const struct ct_allocator_model *m) {
    s->reserved_peak = m->reserved_peak;
    s->allocated_peak = m->allocated_peak;
    s->reserved_end = m->reserved;
    s->largest_free_end = ct_allocator_model_largest_free(m);
    s->driver_allocs = m->driver_allocs;
    s->driver_frees = m->driver_frees;
    s->retries = m->retries;
}

static void run_models(struct second_pass *p, struct ct_trace *t) {
    const struct ct_event *e;
    uint64_t number;
    start_replay(&p->replay, t);
    while ((e = ct_replay_next(&p->replay, t, &number))) {
        const int is_block = is_of_device(e, p->w->request.device);
        if (!is_of_block(e))
            note_driver_call(p, e);
        ct_replay_apply(&p->replay, e, number);
        if (is_block)
            apply_block(p, e, number);
    }
    ct_replay_free(&p->replay);
}

static uint64_t find_total(const struct ct_what_if *w, const struct ct_trace *t) {
    char key[64];
    uint64_t bytes = 0;
    snprintf(key, sizeof key, "device.%d.total_bytes", w->request.device);
    return ct_definitions_info_number(&t->definitions, key, &bytes) ? bytes : 0;
}

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

static void run_all(struct ct_what_if *w, struct ct_trace *t, const struct ct_stream_groups *g,
                    uint64_t total, uint64_t less, uint64_t more) {
    struct second_pass *p = ct_heap_alloc_zeroed(1, sizeof *p);
    p->w = w;
    p->less = less;
    p->more = more;
    p->groups = g;
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        ct_allocator_model_init(
            &p->model[i], i < (int)CT_WHAT_IF_ASKED ? &w->recorded : &w->request.asked,
            i != CT_WHAT_IF_CHECK && w->request.capacity ? w->request.capacity : total);
        p->model[i].allowed = find_allowed(w, i, total);
        w->side[i].least_left = UINT64_MAX;
    }
    run_models(p, t);
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        copy_side(&w->side[i], &p->model[i]);
        ct_allocator_model_free(&p->model[i]);
    }
    for (int small = 0; small < 2; small++) {
        const uint32_t spaces = p->space_groups[small ? CT_MODEL_SMALL : CT_MODEL_LARGE];
        w->groups[small] = g->groups[small] > spaces ? g->groups[small] : spaces;
    }
    free(p->ids.slots);
    ct_map_free(&p->spaces);
    free(p);
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
    const uint64_t total = find_total(w, t);
    w->limit = find_allowed(w, CT_WHAT_IF_CHECK, total);
    if (find_groups(&groups, w, t, total)) {
        ct_stream_groups_free(&groups);
        w->state = CT_WHAT_IF_TOO_MANY_STREAMS;
        return;
    }
    w->passed_over = groups.passed_over;
    w->contradicted = groups.contradicted;
    w->waited = groups.waited;
    w->by_creation = minor >= 9; // known of 2.15; up to 2.4 the address counts
    const struct ct_what_if before = *w;
    run_all(w, t, &groups, total, 0, 0);
    if (w->state == CT_WHAT_IF_DEVIATES || w->state == CT_WHAT_IF_OOM_NOT_REPRODUCED) {
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

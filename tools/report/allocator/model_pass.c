// SPDX-License-Identifier: Apache-2.0
// The second pass over a recording.
#include "allocator/model.h"
#include "allocator/recorded.h"
#include "allocator/stream_groups.h"
#include "question/pass.h"

// What a thread did last.
struct thread_state {
    uint16_t group[CT_MODEL_CLASSES]; // of its last block
    uint8_t failed;                   // a call to the driver ran out of memory since its last block
    uint64_t space;                   // address space that it reserved since its last block
    uint64_t mapped;                  // address space into which it mapped memory since then
};

// A live block of the trace in each model; in a free place, `in[0]` is the next free one.
struct block {
    uint32_t in[CT_WHAT_IF_SIDES];
};

struct models {
    struct ct_what_if *w;
    const struct ct_stream_groups *groups;
    struct ct_replay replay;
    struct ct_allocator_model model[CT_WHAT_IF_SIDES];
    struct ct_map places; // address of a block -> its place in `blocks`, + 1
    struct block *blocks;
    uint32_t block_count, block_room, spare;
    // Address space of expandable segments -> (its group + 1) * CT_MODEL_CLASSES + its class; 0: it
    // has ended.
    struct ct_map spaces;
    uint32_t space_groups[CT_MODEL_CLASSES];
    struct ct_map ends; // of address space: how often there
    struct thread_state threads[CT_RECORDED_THREADS];
    uint64_t refused_untracked; // the least that is untracked, if the last calls failed for that
    unsigned trials;            // how many requests that failed were tried in a copy of the model
    unsigned release_trials;    // the same of requests before which segments were freed
    struct ct_release release;
    uint64_t less, more; // by so much the driver has less or more than was recorded
};

static struct thread_state *thread_of(struct models *p, const struct ct_event *e) {
    return &p->threads[CT_GET(e, thread) % CT_RECORDED_THREADS];
}

// ---- the driver's memory ------------------------------------------------------------------------

// The driver's memory that is not PyTorch's. A reading may fall between a call and its event, so
// what the calls of a request show is above it: what failed did not fit, what succeeded did.
static uint64_t other_bytes(const struct models *p, uint64_t *total) {
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

static void set_room(struct models *p) {
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

static void note_refusal_by_driver(struct models *p, const struct ct_event *e) {
    const struct ct_breakdown s = ct_replay_split(&p->replay, p->w->request.device);
    if (!s.used_known || !CT_HAS(e, bytes) || ct_event_device_index(e) != p->w->request.device ||
        e->bytes > s.total || s.tracked > s.total - e->bytes)
        return;
    const uint64_t least = s.total - s.tracked - e->bytes + 1;
    if (least > p->refused_untracked)
        p->refused_untracked = least;
}

// ---- requests in the models ---------------------------------------------------------------------

static void note_failure(struct models *p, int side, const struct ct_event *e, uint64_t number) {
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
static uint32_t request_block(struct models *p, int side, uint32_t group, uint64_t bytes) {
    struct ct_allocator_model *m = &p->model[side];
    const uint64_t before = m->driver_allocs;
    const uint32_t block = ct_allocator_model_alloc(m, group, bytes);
    if (m->driver_allocs != before)
        note_left(&p->w->side[side], m);
    return block;
}

// In the check, a request that succeeded in the recording must get its memory, whatever the driver
// is thought to have, so that the rest can be compared.
static uint32_t force_block(struct models *p, uint32_t group, uint64_t bytes) {
    struct ct_allocator_model *m = &p->model[CT_WHAT_IF_CHECK];
    const uint64_t room = m->room, allowed = m->allowed;
    p->w->not_reproduced++;
    m->room = m->allowed = CT_MODEL_MOST_BYTES * 2;
    const uint32_t block = ct_allocator_model_alloc(m, group, bytes);
    m->room = room;
    m->allowed = allowed;
    return block;
}

// The same in each run: a block has the same size in the next one.
static uint64_t scatter(uint64_t number, uint64_t side) {
    uint64_t h = number * CT_WHAT_IF_SIDES + side;
    for (int i = 0; i < 2; i++)
        h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

// The request of a block in a model.
static uint64_t request_size(const struct models *p, int side, const struct ct_event *e,
                             uint64_t number, uint64_t most) {
    if (side <= CT_WHAT_IF_ASKED || side == CT_WHAT_IF_ASKED_APART)
        return most;
    uint64_t least =
        ct_request_least(&p->w->recorded, e->bytes, p->model[CT_WHAT_IF_CHECK].took_whole);
    if (least > most)
        least = most;
    if (side == CT_WHAT_IF_ASKED_LEAST)
        return least;
    const uint64_t steps = (most - least) / CT_ALLOCATOR_MIN_BLOCK + 1;
    return most - scatter(number, (uint64_t)side) % steps * CT_ALLOCATOR_MIN_BLOCK;
}

static void release_cached(struct models *p) {
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
        if (!p->w->side[i].stopped)
            ct_allocator_model_release_cached(&p->model[i]);
}

// The block at an address, a new one if there is none.
static struct block *get_block(struct models *p, uint64_t address) {
    uint64_t *place = ct_map_add(&p->places, address);
    if (!*place && p->spare != CT_NO_BLOCK) {
        *place = p->spare + UINT64_C(1);
        p->spare = p->blocks[p->spare].in[0];
    } else if (!*place) {
        CT_HEAP_GROW(p->blocks, p->block_count, p->block_room);
        *place = ++p->block_count;
    }
    return &p->blocks[*place - 1];
}

static void alloc_block(struct models *p, const struct ct_event *e, uint64_t number, uint32_t group,
                        uint32_t apart) {
    struct block *b = get_block(p, e->ptr);
    const uint64_t most = ct_request_most(&p->w->recorded, e->bytes);
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        b->in[i] = CT_NO_BLOCK;
        if (p->w->side[i].stopped)
            continue;
        const uint64_t bytes = request_size(p, i, e, number, most);
        p->w->uncertain_sizes += i == CT_WHAT_IF_ASKED_LEAST && bytes < most;
        b->in[i] = request_block(p, i, i == CT_WHAT_IF_ASKED_APART ? apart : group, bytes);
        if (b->in[i] != CT_NO_BLOCK)
            continue;
        note_failure(p, i, e, number);
        if (i == CT_WHAT_IF_CHECK)
            b->in[i] = force_block(p, group, bytes);
        else
            p->w->side[i].stopped = 1;
    }
}

static void free_block(struct models *p, const struct ct_event *e) {
    const uint64_t *place = ct_map_find(&p->places, e->ptr);
    if (!place)
        return;
    const uint32_t at = (uint32_t)*place - 1;
    struct block *b = &p->blocks[at];
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
        if (b->in[i] != CT_NO_BLOCK && !p->w->side[i].stopped)
            ct_allocator_model_free_block(&p->model[i], b->in[i]);
    b->in[0] = p->spare;
    p->spare = at;
    ct_map_remove(&p->places, e->ptr);
}

static void fail_block(struct models *p, const struct ct_event *e, uint64_t number,
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

// ---- the recording beside the check -------------------------------------------------------------

// What PyTorch has reserved, without what lies in memory of another allocator.
static uint64_t reported_bytes(const struct models *p, const struct ct_event *e) {
    const struct ct_torch_pool_device *d = &p->replay.pool.device[p->w->request.device];
    const uint64_t foreign = d->segment_bytes - d->own_bytes;
    if (!CT_HAS(e, reserved_bytes))
        return d->own_bytes;
    return e->reserved_bytes > foreign ? e->reserved_bytes - foreign : 0;
}

// Compares the check with what PyTorch reports.
static void compare(struct models *p, const struct ct_event *e, uint64_t number) {
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

// ---- which stream a block is of -----------------------------------------------------------------

static enum ct_model_class class_of(uint64_t bytes) {
    return bytes <= CT_ALLOCATOR_SMALL ? CT_MODEL_SMALL : CT_MODEL_LARGE;
}

struct trial {
    int fails, reserves; // reserves: address space
    uint64_t left;       // what is reserved then
};

// A request of a group in a copy of a model.
static struct trial try_request(struct models *p, int side, uint32_t group, uint64_t bytes) {
    const struct ct_allocator_model *m = &p->model[side];
    struct ct_allocator_model copy;
    ct_allocator_model_copy(&copy, m);
    const int fails = ct_allocator_model_alloc(&copy, group, bytes) == CT_NO_BLOCK;
    const struct trial trial = {fails, copy.spaces != m->spaces, copy.reserved};
    ct_allocator_model_free(&copy);
    p->trials++;
    return trial;
}

// Copies take time: where many requests fail, the last ones have the group of the thread's block.
enum { MOST_TRIALS = 4096 };

// Whether a request of a group, which got a new address space or failed in one, can have led to
// what is reported.
static int explains_space(struct models *p, enum ct_model_class class, uint32_t group,
                          const struct ct_event *e) {
    if (p->trials >= MOST_TRIALS)
        return !ct_allocator_model_has_place(&p->model[CT_WHAT_IF_CHECK], group, class, e->bytes);
    const struct trial trial = try_request(p, CT_WHAT_IF_CHECK, group, e->bytes);
    return trial.reserves && trial.fails == (e->op == CT_OP_BLOCK_OOM) &&
           trial.left == reported_bytes(p, e);
}

// The group of a new address space. PyTorch reserves one for a stream that has none, or has no
// place left in those that it has: that which its blocks were recorded with, if it is one of these.
// All others that have none are alike.
static uint32_t place_space(struct models *p, uint64_t space, enum ct_model_class class,
                            const struct ct_event *e) {
    const struct ct_recorded_streams *r = &p->groups->recorded;
    const uint32_t first = r->number.count; // group of no recorded stream
    const uint32_t own =
        ct_recorded_streams_find(r, ct_recorded_streams_space_key(&p->ends, space));
    uint32_t empty = CT_NO_BLOCK, *groups = &p->space_groups[class];
    if (*groups < first)
        *groups = first;
    if (own != CT_NO_RECORDED_STREAM &&
        (ct_allocator_model_is_empty(&p->model[CT_WHAT_IF_CHECK], own, class) ||
         explains_space(p, class, own, e)))
        return own;
    for (uint32_t i = 0; i < *groups; i++) {
        if (ct_allocator_model_is_empty(&p->model[CT_WHAT_IF_CHECK], i, class))
            empty = i >= first ? i : empty;
        else if (explains_space(p, class, i, e))
            return i;
    }
    if (empty != CT_NO_BLOCK || *groups == CT_STREAM_GROUPS_MOST)
        return empty == CT_NO_BLOCK ? 0 : empty;
    return (*groups)++;
}

static uint32_t group_of_space(struct models *p, uint64_t space, enum ct_model_class class,
                               const struct ct_event *e) {
    uint64_t *known = ct_map_add(&p->spaces, space);
    if (!*known) {
        const uint32_t group = place_space(p, space, class, e);
        *known = (uint64_t)(group + 1) * CT_MODEL_CLASSES + class;
    }
    return (uint32_t)(*known / CT_MODEL_CLASSES) - 1;
}

static uint32_t find_group(struct models *p, const struct ct_torch_region *region,
                           enum ct_model_class class, const struct ct_event *e) {
    if (region->maps)
        return group_of_space(p, region->reservation, class, e);
    const struct ct_grouped_segment *s = ct_stream_groups_find(p->groups, region->event);
    return s ? s->group : 0;
}

// The same, with as many streams as there can be.
static uint32_t find_apart(const struct models *p, const struct ct_torch_region *region,
                           uint32_t group) {
    const struct ct_grouped_segment *s =
        region->maps ? NULL : ct_stream_groups_find(p->groups, region->event);
    return s ? s->apart : group;
}

// Whether the failure of a request of a group explains what is reported. It reserves no address
// space if none was reserved.
static int explains_failure(struct models *p, const struct thread_state *thread, uint32_t group,
                            const struct ct_event *e) {
    const struct trial trial = try_request(p, CT_WHAT_IF_CHECK, group, e->bytes);
    return trial.fails && trial.left == reported_bytes(p, e) && (thread->space || !trial.reserves);
}

// The groups that a request which failed can be of.
struct candidates {
    uint32_t list[CT_STREAM_GROUPS_MOST];
    uint32_t count;
};

// That of the address space that was mapped or reserved for it, else that of the thread's last
// block, and each in which it fails and leaves what PyTorch reports.
static void guess_groups(struct models *p, const struct thread_state *thread,
                         const struct ct_event *e, struct candidates *c) {
    const enum ct_model_class class = class_of(e->bytes);
    const uint32_t arenas = p->model[CT_WHAT_IF_CHECK].arena_count;
    const uint64_t space = thread->mapped ? thread->mapped : thread->space;
    const uint32_t last = space ? group_of_space(p, space, class, e) : thread->group[class];
    c->count = 0;
    if (p->trials < MOST_TRIALS && explains_failure(p, thread, last, e))
        c->list[c->count++] = last;
    if (!c->count || !space)
        for (uint32_t group = 0; group * CT_MODEL_CLASSES < arenas && p->trials < MOST_TRIALS &&
                                 c->count < CT_STREAM_GROUPS_MOST;
             group++)
            if (group != last && explains_failure(p, thread, group, e))
                c->list[c->count++] = group;
    // A stream that has no segment yet, if no other one explains it.
    const uint32_t fresh = arenas / CT_MODEL_CLASSES;
    if (!c->count && fresh < CT_STREAM_GROUPS_MOST && p->trials < MOST_TRIALS &&
        explains_failure(p, thread, fresh, e))
        c->list[c->count++] = fresh;
    if (!c->count)
        c->list[c->count++] = last;
}

// Whether the candidates fare differently with the asked settings.
static int is_ambiguous(struct models *p, const struct candidates *c, const struct ct_event *e) {
    for (int side = CT_WHAT_IF_ASKED; side < CT_WHAT_IF_SIDES; side++) {
        if (p->w->side[side].stopped)
            continue;
        const int first = try_request(p, side, c->list[0], e->bytes).fails;
        for (uint32_t i = 1; i < c->count; i++)
            if (p->trials >= MOST_TRIALS ||
                try_request(p, side, c->list[i], e->bytes).fails != first)
                return 1;
    }
    return 0;
}

// ---- empty_cache() ------------------------------------------------------------------------------

// Whether a request in a copy of the check leaves what is reported. `emptied`: after empty_cache().
static int explains_reserve(const struct models *p, uint32_t group, const struct ct_event *e,
                            int emptied) {
    struct ct_allocator_model copy;
    ct_allocator_model_copy(&copy, &p->model[CT_WHAT_IF_CHECK]);
    if (emptied)
        ct_allocator_model_release_cached(&copy);
    ct_allocator_model_alloc(&copy, group, ct_request_most(&p->w->recorded, e->bytes));
    const int explains = copy.reserved == reported_bytes(p, e);
    ct_allocator_model_free(&copy);
    return explains;
}

// What freed segments right before a request was given a new one.
enum release_cause { BY_REQUEST, BY_EMPTY_CACHE, BY_EITHER };

static enum release_cause find_cause(struct models *p, uint32_t group, const struct ct_event *e) {
    if (p->release_trials >= MOST_TRIALS)
        return BY_EITHER;
    p->release_trials++;
    const int by_request = explains_reserve(p, group, e, 0);
    if (by_request == explains_reserve(p, group, e, 1))
        return BY_EITHER;
    return by_request ? BY_REQUEST : BY_EMPTY_CACHE;
}

// Empties the cache where empty_cache() did. Where it may have, some of the asked models take that
// for granted: all must lead to the same answer.
static void release_before(struct models *p, enum release_cause cause, uint64_t number) {
    if (cause == BY_EMPTY_CACHE)
        release_cached(p);
    if (cause != BY_EITHER)
        return;
    for (uint64_t i = CT_WHAT_IF_ASKED_LEAST; i < CT_WHAT_IF_ASKED_APART; i++)
        if (!p->w->side[i].stopped && (i == CT_WHAT_IF_ASKED_LEAST || scatter(number, i) >> 63))
            ct_allocator_model_release_cached(&p->model[i]);
}

// ---- the pass -----------------------------------------------------------------------------------

static void note_space(struct models *p, struct thread_state *thread, const struct ct_event *e) {
    struct ct_tree_range space;
    if (e->op == CT_OP_RESERVE)
        thread->space = e->ptr;
    if (e->op == CT_OP_MAP && ct_range_tree_find(&p->replay.pool.reserved, e->ptr, &space) &&
        space.start <= e->ptr)
        thread->mapped = space.start;
    if (e->op != CT_OP_UNRESERVE)
        return;
    ++*ct_map_add(&p->ends, e->ptr);
    uint64_t *known = ct_map_find(&p->spaces, e->ptr);
    if (!known || !*known)
        return;
    *known = 0;
}

static void apply_block(struct models *p, const struct ct_event *e, uint64_t number) {
    struct ct_what_if *w = p->w;
    struct thread_state *thread = thread_of(p, e);
    const enum ct_model_class class = class_of(e->bytes);
    const struct ct_torch_region *region = NULL;
    const int inside = p->release.open && ct_release_is_inside_request(&p->release, w, e);
    if (p->release.open && !inside)
        release_cached(p);
    p->release.open = 0;
    if (e->op == CT_OP_BLOCK_FREE) {
        free_block(p, e);
    } else {
        set_room(p);
        for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
            p->model[i].space_hint = w->by_creation ? 0 : thread->space;
        if (e->op == CT_OP_BLOCK_OOM) {
            struct candidates c;
            guess_groups(p, thread, e, &c);
            w->ambiguous += c.count > 1 && is_ambiguous(p, &c, e);
            fail_block(p, e, number, c.list[0]);
        } else if (e->op == CT_OP_BLOCK_ALLOC &&
                   (region = ct_recorded_region(&p->replay, e->ptr, w->request.device))) {
            thread->group[class] = (uint16_t)find_group(p, region, class, e);
            for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
                p->model[i].hint = region->maps || w->by_creation ? 0 : region->start;
            if (inside)
                release_before(p, find_cause(p, thread->group[class], e), number);
            alloc_block(p, e, number, thread->group[class],
                        find_apart(p, region, thread->group[class]));
            w->blocks++;
        } else {
            w->outside++;
        }
        thread->failed = 0;
        thread->space = thread->mapped = 0;
        p->refused_untracked = 0;
    }
    compare(p, e, number);
}

static void note_driver_call(struct models *p, const struct ct_event *e) {
    struct thread_state *thread = thread_of(p, e);
    ct_release_note(&p->release, &p->replay, e, p->w->request.device, thread->failed);
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

uint64_t ct_model_pass_allowed(const struct ct_what_if *w, int side, uint64_t total) {
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

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    (void)r;
    (void)number;
    if (!ct_recorded_is_block(e))
        note_driver_call(self, e);
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct models *p = self;
    (void)r;
    if (ct_recorded_is_block_of(e, p->w->request.device))
        apply_block(p, e, number);
}

static void run_models(struct models *p, struct ct_trace *t) {
    const struct ct_listener a = {.self = p, .before = before_event, .after = after_event};
    ct_pass_run_one(&p->replay, t, &a);
    ct_replay_free(&p->replay);
}

void ct_model_pass_run(struct ct_what_if *w, struct ct_trace *t, const struct ct_stream_groups *g,
                       uint64_t total, uint64_t less, uint64_t more) {
    struct models *p = ct_heap_alloc_zeroed(1, sizeof *p);
    p->w = w;
    p->less = less;
    p->more = more;
    p->groups = g;
    p->spare = CT_NO_BLOCK;
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        ct_allocator_model_init(
            &p->model[i], i < (int)CT_WHAT_IF_ASKED ? &w->recorded : &w->request.asked,
            i != CT_WHAT_IF_CHECK && w->request.capacity ? w->request.capacity : total);
        p->model[i].allowed = ct_model_pass_allowed(w, i, total);
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
    free(p->blocks);
    ct_map_free(&p->places);
    ct_map_free(&p->spaces);
    ct_map_free(&p->ends);
    free(p);
}

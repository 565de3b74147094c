// SPDX-License-Identifier: Apache-2.0
// Connects live.h, readings.h and the torch pool with a trace, and gives them memory from the heap.
#include "replay/replay.h"

#include <cutrace/model/checkpoint.h>

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "read/device_kind.h"
#include "replay/slab_memory.h"
#include "replay/torch_segments.h"

void ct_replay_init(struct ct_replay *r) {
    memset(r, 0, sizeof *r);
    r->is_known = 1;
    ct_live_init(&r->live, ct_slab_memory_resize, NULL);
}

void ct_replay_stop(struct ct_replay *r) {
    ct_readahead_end(r->ahead);
    r->ahead = NULL;
    r->batch = NULL;
    r->at = r->batch_steps = 0;
}

void ct_replay_release(struct ct_replay *r) {
    ct_replay_stop(r);
    ct_live_release(&r->live);
    ct_torch_pool_free(&r->pool);
    free(r->foreign);
    r->foreign = NULL;
}

void ct_replay_free(struct ct_replay *r) {
    if (r->live.resize)
        ct_replay_release(r);
    ct_resumers_free(&r->resumers); // not in ct_replay_release: views name them afterwards
    memset(r, 0, sizeof *r);
}

static void begin_pool(struct ct_replay *r) {
    ct_torch_pool_begin(&r->pool, &r->live, r->foreign, r->foreign_count, &r->watch);
    r->pool.resumers = &r->resumers;
}

// After memory was mapped: notes by whom, if it is resumed.
static void note_resumer(struct ct_replay *r, uint64_t handle, uint32_t by) {
    const struct ct_object *o = ct_live_find(&r->live, CT_KIND_HANDLE, handle);
    if (o && o->resumed)
        ct_resumers_note(&r->resumers, CT_RESUMED_MEMORY, o->stack, by);
}

void ct_replay_apply(struct ct_replay *r, const struct ct_event *e, uint64_t number) {
    const int is_of_block =
        r->tiles && e->op - CT_OP_BLOCK_ALLOC <= CT_OP_BLOCK_OOM - CT_OP_BLOCK_ALLOC;
    if (is_of_block && !r->pool.on)
        begin_pool(r);
    ct_live_apply(&r->live, e, number);
    if (is_of_block)
        ct_torch_pool_reported(&r->pool, &r->live, CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
    if (e->op == CT_OP_MAP && CT_HAS(e, handle))
        note_resumer(r, e->handle, CT_GET(e, stack));
    if (r->pool.on && e->op == CT_OP_MAP && CT_HAS(e, ptr))
        ct_torch_pool_note_mapping(&r->pool, e->ptr);
    if (!r->has_no_readings)
        ct_readings_apply_ahead(&r->readings, &r->live, e, r->reading_ahead);
}

// Up to so many slots fit into the processor's caches: there prefetching only costs time.
enum { FEW_SLOTS = 16384 };

// Prefetches what the events of a batch are about: the places of the index, then the objects.
static void prefetch_batch(const struct ct_replay *r) {
    uint64_t hash[CT_READAHEAD_BATCH];
    const struct ct_readahead_batch *b = r->batch;
    for (unsigned i = 0; i < b->n; i++) {
        const struct ct_event *e = &b->step[i].event;
        hash[i] = b->step[i].step == CT_STEP_EVENT ? ct_slot_index_prefetch_line(&r->live, e) : 0;
        if (hash[i] && r->pool.on && ct_op_is_block(e->op))
            ct_torch_pool_prefetch(&r->pool, e->ptr, 0);
    }
    for (unsigned i = 0; i < b->n; i++) {
        ct_slot_index_prefetch_slots(&r->live, hash[i]);
        if (hash[i] && r->pool.on && ct_op_is_block(b->step[i].event.op))
            ct_torch_pool_prefetch(&r->pool, b->step[i].event.ptr, 1);
    }
}

// NVML may be read before CUDA's first reading; the definitions have CUDA's total from both ends of
// the trace.
static void read_cuda_totals(struct ct_replay *r, const struct ct_trace *t) {
    static const char *const names[] = {"meminfo_total_bytes", "total_bytes"};
    for (int d = 0; d < CT_MAX_DEVICES; d++)
        for (unsigned i = 0; i < sizeof names / sizeof *names && !r->cuda_total[d]; i++)
            (void)ct_definitions_device_number(&t->definitions, d, names[i], &r->cuda_total[d]);
}

static void read_host_access(struct ct_replay *r, const struct ct_trace *t) {
    for (int d = 0; d < CT_MAX_DEVICES; d++) {
        const struct ct_device_kind kind = ct_device_kind_read(&t->definitions, d);
        r->with_host[d] = kind.is_shared_with_host;
        r->is_host_node[d] = kind.numa_node >= 0;
    }
}

static void set_device_facts(struct ct_replay *r) {
    for (int d = 0; d < CT_DEVICES; d++) {
        r->readings.device[d].cuda_total = r->cuda_total[d];
        r->readings.device[d].with_host = r->with_host[d];
        r->readings.device[d].is_host_node = r->is_host_node[d];
    }
}

static const struct ct_readahead_step *get_next_step(struct ct_replay *r, struct ct_trace *t) {
    if (!r->ahead) {
        if (r->tiles && !r->foreign) { // before the reading thread starts: it adds thread stacks
            r->foreign = ct_torch_segments_foreign_stacks(&t->definitions);
            r->foreign_count = t->definitions.stack_count;
        }
        read_cuda_totals(r, t);
        read_host_access(r, t);
        set_device_facts(r);
        r->ahead = ct_readahead_begin(t, !r->has_no_readings);
    }
    if (r->at == r->batch_steps) {
        r->batch = ct_readahead_next(r->ahead);
        r->batch_steps = r->batch->n;
        r->at = 0;
        if (ct_live_slot_count(&r->live) > FEW_SLOTS)
            prefetch_batch(r);
    }
    return &r->batch->step[r->at++];
}

// ---- checkpoints --------------------------------------------------------------------------------

// Whether a replay ends before the gap of a step. (What it begins with is no gap.)
static int ends_before_gap(const struct ct_replay *r, const struct ct_readahead_step *s) {
    return r->has_begun && r->before_gap && !r->before_gap(r->gap_user, s->number, s->event.t_ns);
}

static void reset_state(struct ct_replay *r) {
    ct_torch_pool_forget(&r->pool);
    r->live.region_changed = NULL;
    ct_torch_pool_free(&r->pool);
    ct_checkpoint_begin_restore(&r->live, &r->readings);
    set_device_facts(r);
    r->resets++;
}

static void restore_object(struct ct_replay *r, const struct ct_event *e) {
    const int is_segment = CT_HAS(e, flags) && e->flags & CT_FLAG_SEGMENT && CT_HAS(e, ptr) &&
                           e->op != CT_OP_RESERVE; // (there the flag says that memory was mapped)
    if (r->tiles && !r->pool.on && (is_segment || e->op == CT_OP_BLOCK_ALLOC))
        begin_pool(r);
    ct_checkpoint_apply(&r->live, &r->readings, e);
    if (r->pool.on && is_segment)
        ct_torch_pool_restore_segment(&r->pool, e->ptr,
                                      CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
}

// A device's next event is compared with what was tracked before it.
static void set_tracked(struct ct_replay *r) {
    for (int d = 0; d < CT_DEVICES; d++)
        r->readings.device[d].tracked = ct_live_tracked(&r->live.device[d]);
}

static void finish_checkpoint(struct ct_replay *r) {
    const struct ct_live *l = &r->live;
    r->is_known = 1;
    ct_checkpoint_end_restore(&r->live);
    set_tracked(r);
    struct ct_live_walk w = ct_live_walk_kind(l, CT_KIND_MAPPING);
    for (const struct ct_object *o; (o = ct_live_walk_next(l, &w));)
        note_resumer(r, ct_live_traits(l, o)->link, o->stack);
    if (r->pool.on)
        ct_torch_pool_assign_devices(&r->pool, &r->live);
    for (int d = 0; d < CT_DEVICES && r->pool.on; d++)
        if (r->live.device[d].reported)
            ct_torch_pool_reported(&r->pool, &r->live, d);
}

const struct ct_event *ct_replay_next_slow(struct ct_replay *r, struct ct_trace *t,
                                           uint64_t *number) {
    for (;;) {
        const struct ct_readahead_step *s = get_next_step(r, t);
        *number = s->number;
        switch (s->step) {
        case CT_STEP_END:
            ct_replay_stop(r);
            return NULL;
        case CT_STEP_EVENT:
            r->reading_ahead = s->ahead;
            r->has_begun = 1;
            return &s->event;
        case CT_STEP_GAP:
        case CT_STEP_RESET:
            if (ends_before_gap(r, s)) {
                ct_replay_stop(r);
                return NULL;
            }
            r->is_known = 0;
            r->gaps++;
            if (s->step == CT_STEP_RESET)
                reset_state(r);
            break;
        case CT_STEP_OBJECT:
            restore_object(r, &s->event);
            break;
        case CT_STEP_COMPLETE:
            finish_checkpoint(r);
            break;
        }
    }
}

struct ct_breakdown ct_replay_split(const struct ct_replay *r, int device) {
    return ct_readings_breakdown(&r->readings, &r->live, device);
}

// ---- listeners ----------------------------------------------------------------------------------

void ct_listeners_add(struct ct_listeners *l, const struct ct_listener *listener) {
    CT_HEAP_GROW(l->list, l->count, l->room);
    l->list[l->count++] =
        (struct ct_listeners_member){.of = *listener,
                                     .last_event = listener->end_event - 1, // (0: UINT64_MAX)
                                     .last_ns = listener->end_ns - 1};
    if (!listener->objects_self)
        l->list[l->count - 1].of.objects_self = listener->self;
}

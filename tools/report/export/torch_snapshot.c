// SPDX-License-Identifier: Apache-2.0
// Replays the window twice: first to find out which driver memory holds blocks, then to write each
// change as it happens. Keeps the shown regions and blocks by address.
#include "export/torch_snapshot.h"

#include <cutrace/format/assert.h>
#include <cutrace/model/failures.h>
#include <inttypes.h>

#include "question/pass.h"
#include "sites/site_groups.h"

// JavaScript represents smaller numbers exactly.
#define MOST_EXACT (UINT64_C(1) << 53)

static int is_wanted(const struct ct_torch_snapshot *s, int device) {
    return s->device < 0 || s->device == device;
}

// ---- driver memory and blocks -------------------------------------------------------------------

static void write_block_free(struct ct_torch_snapshot *s, const struct ct_listed_range *span) {
    ct_torch_snapshot_write_free(s, span, W_free_requested);
    ct_torch_snapshot_write_free(s, span, W_free_completed);
}

static uint64_t hold_key(const struct ct_listed_range *region) {
    return ct_hash_mix(region->start) ^ region->event;
}

// A synthetic segment (its block's memory comes from a call that was not seen) ends with its block.
static void end_synthetic(struct ct_torch_snapshot *s, uint64_t start) {
    struct ct_listed_range *region = ct_range_list_find_exact(&s->regions, start);
    if (!region || !(region->what & CT_REGION_SYNTHETIC))
        return;
    ct_torch_snapshot_write_free(s, region, W_segment_free);
    ct_range_list_remove(&s->regions, region);
    CT_ASSERT(s->synthetic);
    s->synthetic--;
}

static void end_block(struct ct_torch_snapshot *s, struct ct_listed_range *block) {
    const uint64_t start = block->start;
    write_block_free(s, block);
    ct_range_list_remove(&s->blocks, block);
    if (s->synthetic)
        end_synthetic(s, start);
}

// Ends all blocks that overlap a range. (A synthetic one goes with its block.)
static void end_blocks(struct ct_torch_snapshot *s, const struct ct_listed_range *in) {
    const uint64_t start = in->start, bytes = in->bytes;
    struct ct_listed_range *block;
    while ((block = ct_range_list_find_overlap(&s->blocks, start, bytes)))
        end_block(s, block);
}

static void end_region(struct ct_torch_snapshot *s, struct ct_listed_range *region) {
    const int mapped = region->what & CT_REGION_POOL && region->what & CT_REGION_MAPPED;
    const int ends_with_block = region->what & CT_REGION_SYNTHETIC;
    if (!(region->what & CT_REGION_POOL))
        write_block_free(s, region);
    end_blocks(s, region);
    if (ends_with_block)
        return;
    ct_torch_snapshot_write_free(s, region, mapped ? W_segment_unmap : W_segment_free);
    ct_range_list_remove(&s->regions, region);
}

// Notes whether a mapping and memory that is no mapping lie side by side.
static void check_neighbours(struct ct_torch_snapshot *s, const struct ct_listed_range *region) {
    const uint64_t end = ct_listed_range_end(region);
    const struct ct_listed_range *sides[] = {
        region->start ? ct_range_list_find_overlap(&s->regions, region->start - 1, 1) : NULL,
        ct_range_list_find_overlap(&s->regions, end, 1)};
    for (unsigned i = 0; i < 2; i++)
        if (sides[i] && (sides[i]->what ^ region->what) & CT_REGION_MAPPED)
            s->separate_mappings = 1;
}

static struct ct_listed_range span_of(const struct ct_object *o) {
    return (struct ct_listed_range){.start = o->key,
                                    .bytes = o->bytes,
                                    .event = ct_object_event(o),
                                    .t_ns = o->t_ns,
                                    .stack = o->stack,
                                    .device = o->device};
}

static int can_show(const struct ct_torch_snapshot *s, const struct ct_object *o, int device) {
    return o->bytes && o->key < MOST_EXACT && o->bytes <= MOST_EXACT - o->key &&
           is_wanted(s, ct_device_to_index(device));
}

static void begin_region(struct ct_torch_snapshot *s, const struct ct_object *o, int device,
                         unsigned what) {
    struct ct_listed_range region = span_of(o);
    struct ct_listed_range *there;
    if (!can_show(s, o, device))
        return;
    region.device = (int8_t)device;
    while ((there = ct_range_list_find_overlap(&s->regions, region.start, region.bytes)))
        end_region(s, there);
    if (!s->out && o->segment)
        *ct_map_add(&s->held, hold_key(&region)) = 1;
    // The first replay finds out which regions hold blocks; until then each of them may.
    const int pool = !s->out || ct_map_find(&s->held, hold_key(&region));
    region.what = (uint8_t)(what | (pool ? CT_REGION_POOL : 0));
    check_neighbours(s, &region);
    ct_range_list_add(&s->regions, &region);
    ct_torch_snapshot_write_alloc(
        s, &region, pool && what & CT_REGION_MAPPED ? W_segment_map : W_segment_alloc);
    if (!pool)
        ct_torch_snapshot_write_alloc(s, &region, W_alloc);
}

// Whether a block lies in one segment: in one region, or in adjacent mappings. `note`: remember
// these as holding blocks.
static int lies_in_segment(struct ct_torch_snapshot *s, const struct ct_listed_range *block,
                           int note) {
    uint64_t up_to = block->start;
    for (const struct ct_listed_range *r = ct_range_list_find(&s->regions, up_to); r;
         r = ct_range_list_next(&s->regions, r)) {
        const int first = up_to == block->start;
        if (!(r->what & CT_REGION_POOL) || r->device != block->device ||
            (first ? r->start > up_to : r->start != up_to || !(r->what & CT_REGION_MAPPED)))
            return 0;
        if (note)
            *ct_map_add(&s->held, hold_key(r)) = 1;
        up_to = ct_listed_range_end(r);
        if (up_to >= ct_listed_range_end(block))
            return 1;
        if (!(r->what & CT_REGION_MAPPED))
            return 0;
    }
    return 0;
}

static void begin_block(struct ct_torch_snapshot *s, const struct ct_object *o) {
    struct ct_listed_range block = span_of(o), region = span_of(o);
    block.what = CT_REGION_POOL;
    region.what = CT_REGION_POOL | CT_REGION_SYNTHETIC;
    end_blocks(s, &block);
    if (!lies_in_segment(s, &block, 0)) {
        if (ct_range_list_find_overlap(&s->regions, block.start, block.bytes))
            return; // partly: a damaged trace
        ct_range_list_add(&s->regions, &region);
        s->synthetic++;
        ct_torch_snapshot_write_alloc(s, &region, W_segment_alloc);
    } else if (!s->out) {
        (void)lies_in_segment(s, &block, 1);
    }
    ct_range_list_add(&s->blocks, &block);
    ct_torch_snapshot_write_alloc(s, &block, W_alloc);
}

// ---- changes in the replay ----------------------------------------------------------------------

static int is_memory(const struct ct_traits *from) {
    return from->space != CT_SPACE_HOST && !(from->flags & CT_FLAGS_WITHOUT_MEMORY);
}

static void end_region_at(struct ct_torch_snapshot *s, uint64_t start) {
    struct ct_listed_range *region = ct_range_list_find_exact(&s->regions, start);
    if (region)
        end_region(s, region);
}

// A mapping is device memory if the mapped object is, and on that object's device. While the call
// is applied, only the event knows the mapped object.
static void begin_mapping(struct ct_torch_snapshot *s, const struct ct_object *o,
                          const struct ct_traits *from) {
    const struct ct_live *l = &s->replay->live;
    const uint64_t handle = s->event && CT_HAS(s->event, handle) ? s->event->handle : from->link;
    const struct ct_object *of = ct_live_find(l, CT_KIND_HANDLE, handle);
    if (is_memory(from) && (!of || is_memory(ct_live_traits(l, of))))
        begin_region(s, o, of ? of->device : o->device, CT_REGION_MAPPED);
}

static void address_changed(struct ct_torch_snapshot *s, const struct ct_object *o,
                            const struct ct_traits *from, int sign) {
    if (sign < 0)
        end_region_at(s, o->key);
    else if (is_memory(from))
        begin_region(s, o, o->device, 0);
}

static void tile_changed(void *user, struct ct_object *o, const struct ct_traits *from, int sign) {
    struct ct_torch_snapshot *s = user;
    if (o->kind == CT_KIND_ADDRESS) {
        address_changed(s, o, from, sign);
    } else if (o->kind == CT_KIND_RESERVED) {
        return;
    } else if (o->kind == CT_KIND_MAPPING) {
        if (sign < 0)
            end_region_at(s, o->key);
        else
            begin_mapping(s, o, from);
    } else if (sign < 0) {
        struct ct_listed_range *block = ct_range_list_find_exact(&s->blocks, o->key);
        if (block)
            end_block(s, block);
    } else if (can_show(s, o, o->device)) {
        s->has_blocks = 1;
        begin_block(s, o);
    }
}

// ---- OOMs ---------------------------------------------------------------------------------------

static void describe_oom(const struct ct_torch_snapshot *s, const struct ct_event *e,
                         int free_known, char *to, size_t size) {
    const struct ct_string *api = &s->sites->definitions->strings[CT_GET(e, api)];
    const char *unknown = free_known ? "" : "; free memory is not known";
    const char *size_unknown =
        ct_event_has_requested_bytes(e) ? "" : "; the size of the request is not known";
    if (e->op == CT_OP_BLOCK_OOM)
        (void)snprintf(to, size, "allocation failed in PyTorch%s%s", size_unknown, unknown);
    else
        (void)snprintf(to, size, "allocation failed in the driver: %.*s, result %" PRId32 "%s%s",
                       (int)api->length, api->at, e->result, size_unknown, unknown);
}

static void write_oom(struct ct_torch_snapshot *s, const struct ct_event *e, uint64_t number) {
    const int index = ct_event_device_index(e);
    char text[300];
    if (!s->out || !ct_map_find(&s->ooms, number) || !is_wanted(s, index))
        return;
    const struct ct_breakdown split = ct_replay_split(s->replay, index);
    uint64_t free_bytes = 0;
    if (CT_HAS(e, free_bytes))
        free_bytes = e->free_bytes;
    else if (split.used_known)
        free_bytes = split.free;
    describe_oom(s, e, CT_HAS(e, free_bytes) || split.used_known, text, sizeof text);
    ct_torch_snapshot_write_oom(s, e, free_bytes, text);
}

// ---- the window ---------------------------------------------------------------------------------

struct live_object {
    uint64_t event;
    uint32_t slot;
    int is_block;
};

static int compare_age(const void *a, const void *b) {
    const struct live_object *x = a, *y = b;
    if (x->is_block != y->is_block)
        return x->is_block - y->is_block;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

// Writes the state at the beginning of the window: driver memory, then blocks, the oldest first.
static void write_before(struct ct_torch_snapshot *s, uint64_t t_ns) {
    const struct ct_live *l = &s->replay->live;
    struct live_object *all = NULL;
    size_t n = 0, room = 0;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o ||
            (o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_MAPPING && o->kind != CT_KIND_BLOCK))
            continue;
        CT_HEAP_GROW(all, n, room);
        all[n++] = (struct live_object){ct_object_event(o), i, o->kind == CT_KIND_BLOCK};
    }
    if (n)
        qsort(all, n, sizeof *all, compare_age);
    for (size_t i = 0; i < n; i++) {
        struct ct_object *o = ct_live_object_at(l, all[i].slot);
        tile_changed(s, o, ct_live_traits(l, o), +1);
    }
    free(all);
    for (int d = 0; d < CT_DEVICES && s->out; d++)
        if (s->list[d])
            ct_torch_snapshot_write_marker(s, d, t_ns);
    s->began = 1;
}

static void count_shown(struct ct_torch_snapshot *s) {
    const struct ct_listed_range *span = ct_range_list_find(&s->regions, 0);
    for (; span; span = ct_range_list_next(&s->regions, span)) {
        struct ct_export_shown *d = &s->shown[ct_device_to_index(span->device)];
        d->segment_bytes += span->bytes;
        d->torch_segment_bytes += span->what & CT_REGION_POOL ? span->bytes : 0;
    }
    for (span = ct_range_list_find(&s->blocks, 0); span;
         span = ct_range_list_next(&s->blocks, span)) {
        struct ct_export_shown *d = &s->shown[ct_device_to_index(span->device)];
        d->blocks++;
        d->block_bytes += span->bytes;
    }
    for (int d = 0; d < CT_DEVICES; d++)
        s->shown[d].live_bytes = s->replay->live.device[d].live_bytes;
}

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_torch_snapshot *s = self;
    const struct ct_export_window *w = &s->window;
    (void)r;
    if (!s->began && number >= w->first && e->t_ns >= w->from_ns) {
        write_before(s, e->t_ns);
        s->replay->live.region_changed = tile_changed;
        s->replay->live.region_user = s;
    }
    s->event = e;
    if (s->began)
        write_oom(s, e, number);
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_torch_snapshot *s = self;
    (void)r;
    (void)e;
    (void)number;
    s->event = NULL;
}

static void replay_window(struct ct_torch_snapshot *s, struct ct_trace *t, struct ct_replay *r) {
    const struct ct_listener a = {.self = s,
                                  .end_event = s->window.last + 1,
                                  .end_ns = s->window.to_ns + 1,
                                  .before = before_event,
                                  .after = after_event};
    struct ct_pass pass;
    s->replay = r;
    s->event = NULL;
    s->began = 0;
    memset(s->shown, 0, sizeof s->shown);
    ct_pass_init(&pass, r);
    r->tiles = 0; // (regions and blocks are kept in lists of its own)
    ct_listeners_add(&pass.listeners, &a);
    ct_pass_run(&pass, t);
    ct_pass_free(&pass);
    if (!s->began)
        write_before(s, t->t_last_ns);
    r->live.region_changed = NULL;
    count_shown(s);
}

// ---- preparation --------------------------------------------------------------------------------

// `position`: of a stack's holding, + 1.
static void add_holding(struct ct_live_totals *m, size_t *room, struct ct_map *position,
                        const struct ct_listed_range *span) {
    uint64_t *of = ct_map_add(position, span->stack);
    if (!*of) {
        CT_HEAP_GROW(m->holdings, m->holding_count, *room);
        m->holdings[m->holding_count++] = (struct ct_holding){.stack = span->stack};
        *of = m->holding_count;
    }
    m->holdings[*of - 1].bytes += span->bytes;
    m->holdings[*of - 1].count++;
}

// Chooses the call sites that hold the most at the end: of the blocks, or of driver memory where
// there are no blocks.
static void choose_categories(struct ct_torch_snapshot *s) {
    const struct ct_range_list *from = s->has_blocks ? &s->blocks : &s->regions;
    struct ct_map position = {0};
    size_t room = 16;
    struct ct_live_totals m = {.holdings = ct_heap_alloc_zeroed(room, sizeof *m.holdings)};
    struct ct_site_groups groups;
    for (const struct ct_listed_range *span = ct_range_list_find(from, 0); span;
         span = ct_range_list_next(from, span))
        add_holding(&m, &room, &position, span);
    ct_map_free(&position);
    ct_site_groups_refine(s->sites, m.holdings, m.holding_count);
    ct_site_groups_build(&groups, s->sites, m.holdings, m.holding_count);
    ct_site_groups_sort(&groups);
    for (size_t i = 0; i < groups.count && i < CT_OWN_CATEGORIES; i++)
        s->own[i] = ct_heap_copy_text(groups.list[i].label);
    ct_site_groups_free(&groups);
    free(m.holdings);
}

void ct_torch_snapshot_prepare(struct ct_torch_snapshot *s, struct ct_trace *t) {
    struct ct_replay *r = ct_heap_resize(NULL, 1, sizeof *r);
    replay_window(s, t, r);
    choose_categories(s);
    ct_range_list_free(&s->regions);
    ct_range_list_free(&s->blocks);
    s->synthetic = 0;
    ct_replay_free(r);
    free(r);
}

// ---- writing ------------------------------------------------------------------------------------

void ct_torch_snapshot_export(struct ct_torch_snapshot *s, struct ct_trace *t,
                              struct ct_pickle *out) {
    struct ct_replay *r = ct_heap_resize(NULL, 1, sizeof *r);
    ct_clocks_read(&s->clocks, s->sites->definitions);
    s->out = out;
    s->memos = CT_WORDS;
    ct_pickle_op(out, CT_PICKLE_EMPTY_DICT);
    replay_window(s, t, r);
    ct_torch_snapshot_write_state(s, t);
    ct_replay_free(r);
    free(r);
}

void ct_torch_snapshot_free(struct ct_torch_snapshot *s) {
    ct_range_list_free(&s->regions);
    ct_range_list_free(&s->blocks);
    ct_map_free(&s->held);
    ct_map_free(&s->ooms);
    ct_map_free(&s->frames);
    ct_map_free(&s->frame);
    ct_map_free(&s->file);
    ct_map_free(&s->category);
    ct_map_free(&s->labels);
    for (unsigned i = 0; i < CT_OWN_CATEGORIES; i++)
        free(s->own[i]);
}

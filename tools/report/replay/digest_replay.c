// SPDX-License-Identifier: Apache-2.0
// The recorder made the digests of what it knew when it wrote a chunk: a free that fails later had
// succeeded until then. So this replay does not apply AMENDs beforehand, as all others do: it reads
// records in the order of the file, with a table of tentative frees, as the recorder does.
#include "replay/digest_replay.h"

#include <cutrace/model/checkpoint.h>
#include <cutrace/model/digest_code.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/map.h"
#include "read/index.h"
#include "replay/slab_memory.h"

#define THREADS 65536u // whose last free is remembered

struct digest_replay {
    struct ct_trace *t;
    struct ct_live live;
    struct ct_readings readings; // where checkpoints are restored to; nothing else is read
    struct ct_decoder columns;
    struct ct_digest_maker maker;
    struct ct_digest claimed;
    struct ct_map threads; // tid -> number + 1
    uint32_t thread_count;
    uint64_t tick_ns; // the longest tick of all sections
    int known;        // what is live is known in full
    int is_restoring;
    // Frees of a checkpoint's next object, of which it was not known whether they failed.
    struct ct_event *freed;
    size_t freed_count, freed_capacity;
    struct ct_digest_checked *checked;
};

static void change_total(void *user, const struct ct_object *o, int sign) {
    struct digest_replay *r = user;
    if (!r->is_restoring)
        ct_digest_note_change(&r->maker, &r->live, o, sign);
}

static void change_owner(void *user, const struct ct_object *o, uint32_t by) {
    struct digest_replay *r = user;
    if (!r->is_restoring)
        ct_digest_note_owner(&r->maker, o, by);
}

static void begin(struct digest_replay *r, struct ct_trace *t) {
    r->t = t;
    ct_live_init(&r->live, ct_slab_memory_resize, r);
    r->live.total_changed = change_total;
    r->live.owner_changed = change_owner;
    r->live.tentative = ct_heap_alloc_zeroed(THREADS, sizeof *r->live.tentative);
    r->live.tentative_room = THREADS;
    r->columns.memory = ct_heap_resize(NULL, ct_decoder_memory_bytes(), 1);
    r->tick_ns = 1;
    const struct ct_index_chunk *first = t->index.count ? &t->index.chunks[0] : NULL;
    r->known = first && !first->gap && !first->head.first_event;
}

static void end(struct digest_replay *r) {
    free(r->live.tentative);
    ct_live_release(&r->live);
    free(r->columns.memory);
    free(r->freed);
    ct_map_free(&r->threads);
}

// ---- ids ----------------------------------------------------------------------------------------

// A small number for a thread, the same in all generations of dictionaries.
static uint32_t number_thread(struct digest_replay *r, uint32_t thread) {
    const struct ct_definitions *n = &r->t->definitions;
    uint64_t *at = ct_map_add(&r->threads, n->threads[thread].tid + 1);
    if (!*at)
        *at = ++r->thread_count;
    return (uint32_t)*at;
}

static void resolve(struct digest_replay *r, struct ct_event *e) {
    const struct ct_definitions *n = &r->t->definitions;
    if (CT_HAS(e, thread))
        e->thread = number_thread(r, ct_definitions_id(n, CT_SECTION_THREADS, e->thread));
    if (CT_HAS(e, stack))
        e->stack = ct_definitions_id(n, CT_SECTION_STACKS, e->stack);
    if (!CT_HAS(e, op))
        e->op = 0;
    if (!CT_HAS(e, t_ns))
        e->t_ns = 0;
}

// ---- checkpoints --------------------------------------------------------------------------------

// The object of a record and its key, if it is of a kind whose frees may turn out to have failed.
static unsigned find_kind(const struct ct_event *e, uint64_t *key) {
    const unsigned kind = ct_event_makes(e, key);
    return kind == CT_KIND_ADDRESS || kind == CT_KIND_ARRAY || kind == CT_KIND_RESERVED ||
                   kind == CT_KIND_REGISTERED
               ? kind
               : CT_KIND_NONE;
}

// The object was freed by calls that may still turn out to have failed.
static void free_restored(struct digest_replay *r, unsigned kind, uint64_t key) {
    for (size_t i = 0; i < r->freed_count && kind; i++) {
        struct ct_event e = r->freed[i];
        const struct ct_found f = ct_slot_index_lookup(&r->live, kind, key);
        e.t_ns = e.amends_ns;
        if (f.what)
            ct_tentative_free(&r->live, &f, &e);
        else
            (void)ct_tentative_free_again(&r->live, kind, key, &e);
    }
}

static void restore_object(struct digest_replay *r, struct ct_event *e) {
    uint64_t key;
    resolve(r, e);
    if (e->op == CT_OP_AMEND) {
        CT_HEAP_GROW(r->freed, r->freed_count, r->freed_capacity);
        r->freed[r->freed_count++] = *e;
        return;
    }
    // What is there has the address since the free: then the call did not fail.
    const unsigned kind = find_kind(e, &key);
    if (!r->freed_count || !ct_slot_index_lookup(&r->live, kind, key).what) {
        ct_checkpoint_apply(&r->live, &r->readings, e);
        free_restored(r, kind, key);
    }
    r->freed_count = 0;
}

static void forget_state(struct digest_replay *r) {
    for (uint32_t i = 0; i < r->live.tentative_used; i++)
        ct_tentative_confirm(&r->live, &r->live.tentative[i]);
    ct_checkpoint_begin_restore(&r->live, &r->readings);
    r->known = 0;
}

static void restore(struct digest_replay *r, const struct ct_index_chunk *c, struct ct_in body) {
    struct ct_in section;
    struct ct_event e;
    unsigned kind;
    r->is_restoring = 1;
    if (c->reset)
        forget_state(r);
    while (c->restores && ct_section_next(&body, &kind, &section) > 0) {
        if (kind != CT_SECTION_CHECKPOINT)
            continue;
        (void)ct_get_varint(&section);
        if (ct_decoder_open(&r->columns, section))
            break;
        while (ct_decoder_next(&r->columns, &e) > 0)
            restore_object(r, &e);
    }
    if (c->completes) {
        ct_checkpoint_end_restore(&r->live);
        r->known = !(c->checkpoint & CT_CHECKPOINT_INEXACT);
    }
    r->is_restoring = 0;
}

// ---- events -------------------------------------------------------------------------------------

// An AMEND has the exact time of its free, whose own may be rounded down.
static void round_amended_time(const struct digest_replay *r, struct ct_event *e) {
    const struct ct_tentative *a = &r->live.tentative[CT_GET(e, thread) & (THREADS - 1)];
    if (CT_HAS(e, amends_ns) && a->freed_ns && a->freed_ns < e->amends_ns &&
        e->amends_ns - a->freed_ns < r->tick_ns)
        e->amends_ns = a->freed_ns;
}

static void apply(struct digest_replay *r, struct ct_event *e, uint64_t number) {
    resolve(r, e);
    if (e->op == CT_OP_AMEND)
        round_amended_time(r, e);
    ct_digest_note_event(&r->maker, e, number);
    ct_live_apply(&r->live, e, number);
    ct_digest_note_facts(&r->maker, e);
}

// Returns 0, or -1: some events are malformed.
static int apply_events(struct digest_replay *r, const struct ct_index_chunk *c,
                        struct ct_in body) {
    uint64_t number = c->head.first_event;
    struct ct_in section;
    struct ct_event e;
    unsigned kind;
    int more = 0;
    while (ct_section_next(&body, &kind, &section) > 0) {
        if (kind != CT_SECTION_EVENTS)
            continue;
        if (ct_decoder_open(&r->columns, section))
            return -1;
        while ((more = ct_decoder_next(&r->columns, &e)) > 0) {
            r->tick_ns = r->columns.tick_ns > r->tick_ns ? r->columns.tick_ns : r->tick_ns;
            const int is_numbered = !CT_HAS(&e, op) || e.op != CT_OP_AMEND;
            apply(r, &e, number);
            number += (uint64_t)is_numbered;
        }
        if (more < 0)
            return -1;
    }
    return 0;
}

// ---- comparison ---------------------------------------------------------------------------------

// Whether a time of a digest is that of a record, which may be rounded down.
static int is_time(const struct digest_replay *r, uint64_t claimed, uint64_t found) {
    return claimed - found < r->tick_ns;
}

static int is_same_sum(const struct ct_digest_sum *a, const struct ct_digest_sum *b) {
    return a->bytes == b->bytes && a->count == b->count;
}

static int is_same_flow(const struct ct_digest_flow *a, const struct ct_digest_flow *b) {
    return is_same_sum(&a->taken, &b->taken) && is_same_sum(&a->given, &b->given);
}

static int is_same_reading(const struct digest_replay *r, int has_claimed, int has_found,
                           const struct ct_digest_reading *claimed,
                           const struct ct_digest_reading *found) {
    if (!has_claimed || !has_found)
        return has_claimed == has_found;
    return claimed->free == found->free && claimed->total == found->total &&
           is_time(r, claimed->t_ns, found->t_ns);
}

static const char *compare_counts(const struct ct_digest *claimed, const struct ct_digest *found) {
    if (memcmp(claimed->ops, found->ops, sizeof found->ops) != 0)
        return "digest that disagrees with the chunk's operations";
    if (claimed->lost != found->lost)
        return "digest that disagrees with the chunk's lost events";
    if (claimed->failed != found->failed ||
        memcmp(claimed->failed_event, found->failed_event, sizeof found->failed_event) != 0)
        return "digest that disagrees with the chunk's failed requests";
    if (claimed->failed_frees != found->failed_frees)
        return "digest that disagrees with the chunk's frees that failed";
    return NULL;
}

static const char *compare_facts(const struct digest_replay *r, const struct ct_digest_device *a,
                                 const struct ct_digest_device *b) {
    if (!is_same_reading(r, a->has_lowest, b->has_lowest, &a->lowest, &b->lowest) ||
        !is_same_reading(r, a->has_last, b->has_last, &a->last, &b->last))
        return "digest that disagrees with the chunk's readings";
    if (a->has_reported != b->has_reported || a->allocated != b->allocated ||
        a->reserved != b->reserved || a->most_allocated != b->most_allocated ||
        a->most_allocated_event != b->most_allocated_event ||
        a->most_reserved != b->most_reserved || a->most_reserved_event != b->most_reserved_event)
        return "digest that disagrees with PyTorch's totals in the chunk";
    return NULL;
}

static const char *compare_live(const struct digest_replay *r, const struct ct_digest_device *a,
                                const struct ct_digest_device *b) {
    if (a->live_bytes != b->live_bytes || !is_same_flow(&a->flow, &b->flow))
        return "digest that disagrees with what the chunk's events take and give back";
    if (a->has_peak != b->has_peak || a->peak_bytes != b->peak_bytes ||
        (a->has_peak && (a->peak_event != b->peak_event || !is_time(r, a->peak_ns, b->peak_ns))))
        return "digest that disagrees with the chunk's peak";
    return NULL;
}

// How many stacks of the chunk's dictionaries are the same stack here: frames that differ for the
// recorder may look alike.
static unsigned count_aliases(const struct ct_definitions *n, uint32_t stack) {
    unsigned count = 0;
    for (uint32_t id = 1; id <= n->ids[CT_SECTION_STACKS].count; id++)
        count += ct_definitions_id(n, CT_SECTION_STACKS, id) == stack;
    return count;
}

static int is_part_of(const struct ct_digest_flow *part, const struct ct_digest_flow *all) {
    return part->taken.bytes <= all->taken.bytes && part->taken.count <= all->taken.count &&
           part->given.bytes <= all->given.bytes && part->given.count <= all->given.count;
}

static struct ct_digest_flow sum_found(const struct ct_digest_maker *m) {
    struct ct_digest_flow all = m->sites.beyond;
    for (uint32_t i = 0; i < m->sites.used; i++)
        ct_digest_flow_join(&all, &m->sites.site[i].flow);
    return all;
}

// The listed sites, each with all that is claimed of it; then the sum with the rest.
static const char *compare_sites(struct digest_replay *r) {
    static const char wrong[] = "digest that disagrees with the chunk's call sites";
    const struct ct_definitions *n = &r->t->definitions;
    const struct ct_digest *claimed = &r->claimed;
    struct ct_digest_flow all = claimed->rest;
    const struct ct_digest_flow found = sum_found(&r->maker);
    for (uint32_t i = 0; i < claimed->sites; i++) {
        const uint32_t id = claimed->site[i].stack,
                       stack = ct_definitions_id(n, CT_SECTION_STACKS, id);
        const int is_followed = r->maker.sites.used < CT_DIGEST_FOLLOWED;
        const struct ct_digest_flow *own = ct_digest_flow_of_site(&r->maker.sites, stack);
        ct_digest_flow_join(&all, &claimed->site[i].flow);
        if ((id && !stack) || (is_followed && own == &r->maker.sites.beyond))
            return wrong;
        if (own == &r->maker.sites.beyond || is_same_flow(&claimed->site[i].flow, own))
            continue;
        if (!is_part_of(&claimed->site[i].flow, own) || count_aliases(n, stack) < 2)
            return wrong;
    }
    return is_same_flow(&all, &found) ? NULL : wrong;
}

static const char *compare(struct digest_replay *r) {
    const struct ct_digest *claimed = &r->claimed, *found = &r->maker.digest;
    const char *what = compare_counts(claimed, found);
    for (int i = 0; i < CT_DEVICES && !what; i++) {
        what = compare_facts(r, &claimed->device[i], &found->device[i]);
        if (!what && r->known)
            what = compare_live(r, &claimed->device[i], &found->device[i]);
    }
    return what || !r->known ? what : compare_sites(r);
}

// ---- chunks -------------------------------------------------------------------------------------

static uint64_t measure_definitions(const struct ct_in *body) {
    struct ct_in at = *body, section;
    unsigned kind;
    uint64_t bytes = 0;
    while (ct_section_next(&at, &kind, &section) > 0)
        if (kind < CT_SECTION_EVENTS)
            bytes = (uint64_t)(at.at - body->at);
    return bytes;
}

static const char *compare_body(const struct ct_index_chunk *c, const struct ct_in *body,
                                const struct ct_digest_body *claimed) {
    if (claimed->definition_bytes != measure_definitions(body) ||
        claimed->has_checkpoint != c->has_checkpoint || claimed->checkpoint != c->checkpoint)
        return "digest that disagrees with the chunk's sections";
    return NULL;
}

static void check_chunk(struct digest_replay *r, struct ct_index_chunk *c, struct ct_in body) {
    struct ct_digest_body claimed;
    const char *what;
    if (c->gap)
        r->known = 0;
    restore(r, c, body);
    ct_digest_begin(&r->maker, &r->live, c->head.first_event);
    if (apply_events(r, c, body)) {
        r->known = 0;
        return;
    }
    ct_digest_end(&r->maker, &r->live);
    const int has = ct_digest_read(&r->t->source, c, &r->claimed, &claimed, &what);
    if (has > 0)
        what = compare_body(c, &body, &claimed);
    if (has > 0 && !what)
        what = compare(r);
    if (what)
        ct_digest_add_damage(&r->t->index, c, what);
    r->checked->digests += has > 0;
    r->checked->partly += has > 0 && !r->known;
}

struct ct_digest_checked ct_digest_replay_check(struct ct_trace *t) {
    struct digest_replay *r = ct_heap_alloc_zeroed(1, sizeof *r);
    struct ct_digest_checked checked = {0};
    size_t with_digest = 0;
    for (size_t i = 0; i < t->index.count; i++)
        with_digest += t->index.chunks[i].digest_bytes != 0;
    r->checked = &checked;
    begin(r, t);
    for (size_t i = 0; i < t->index.count && with_digest; i++) {
        struct ct_in body;
        if (ct_trace_read_chunk(t, i, &body))
            r->known = 0;
        else
            check_chunk(r, &t->index.chunks[i], body);
    }
    end(r);
    free(r);
    ct_trace_rewind(t);
    return checked;
}

// SPDX-License-Identifier: Apache-2.0
#include "diagnose/log_owners.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"

// ---- whose lines are whose ----------------------------------------------------------------------

static int is_rank(const struct ct_process *p, uint64_t rank) {
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, rank);
    return p->rank && strcmp(p->rank, text) == 0;
}

static int is_named(const struct ct_process *p, const struct ct_line_tag *tag) {
    if (!p->is_usable)
        return 0;
    return tag->has_pid ? p->pid_known && p->pid == tag->pid : is_rank(p, tag->rank);
}

// Whether tags of another machine or container have the same number.
static int has_namesake(const struct ct_process_lines *l, size_t part) {
    const struct ct_line_tag *one = &l->list[part]->tag;
    for (size_t i = 1; i < l->count; i++) {
        const struct ct_line_tag *other = &l->list[i]->tag;
        if (i != part && one->has_pid == other->has_pid &&
            (one->has_pid ? one->pid == other->pid : one->rank == other->rank))
            return 1;
    }
    return 0;
}

static struct ct_log_owner find_owner(const struct ct_process_lines *l, size_t part,
                                      const struct ct_processes *all) {
    struct ct_log_owner found = {.kind = CT_LOG_NO_TRACE, .process = CT_LOG_SHARED};
    if (!ct_line_tag_is_known(&l->list[part]->tag))
        return (struct ct_log_owner){CT_LOG_NO_TAG, CT_LOG_SHARED};
    for (size_t i = 0; i < all->count; i++) {
        if (!is_named(&all->list[i], &l->list[part]->tag) || all->list[i].first_trace != i)
            continue;
        if (found.kind != CT_LOG_NO_TRACE)
            return (struct ct_log_owner){CT_LOG_AMBIGUOUS, CT_LOG_SHARED};
        found = (struct ct_log_owner){CT_LOG_OWNED, i};
    }
    if (found.kind == CT_LOG_OWNED && has_namesake(l, part))
        return (struct ct_log_owner){CT_LOG_AMBIGUOUS, CT_LOG_SHARED};
    return found;
}

void ct_log_owners_find(struct ct_log_owners *o, const struct ct_process_lines *lines,
                        const struct ct_processes *all) {
    *o = (struct ct_log_owners){.lines = lines};
    o->list = ct_heap_alloc_zeroed(lines->count ? lines->count : 1, sizeof *o->list);
    for (size_t i = 0; i < lines->count; i++) {
        o->list[i] = find_owner(lines, i, all);
        o->owned += o->list[i].kind == CT_LOG_OWNED;
        o->tagged += o->list[i].kind != CT_LOG_NO_TAG;
        o->ambiguous += o->list[i].kind == CT_LOG_AMBIGUOUS;
    }
}

void ct_log_owners_free(struct ct_log_owners *o) {
    free(o->list);
    *o = (struct ct_log_owners){0};
}

int ct_log_owners_has(const struct ct_log_owners *o, size_t process) {
    for (size_t i = 0; o->lines && i < o->lines->count; i++)
        if (o->list[i].process == process)
            return 1;
    return 0;
}

// ---- what they say ------------------------------------------------------------------------------

// Whether another process's fact is about the whole server.
static int is_common(const struct ct_text_fact *e) {
    const enum ct_text_role role = ct_template_role(e->kind);
    return (role == CT_TEXT_ROLE_INFO || role == CT_TEXT_ROLE_PROGRESS) &&
           e->kind != CT_TEXT_KIND_DRIVER_REFUSED && e->kind != CT_TEXT_KIND_CUTRACE;
}

static void add_stamps(struct ct_text_facts *to, const struct ct_text_facts *from) {
    for (size_t i = 0; i < from->stamp_count; i++) {
        CT_HEAP_GROW(to->stamps, to->stamp_count, to->stamp_room);
        to->stamps[to->stamp_count++] = from->stamps[i];
    }
}

// Adds the facts of some lines: all, or those that are about all processes.
static void add_facts(struct ct_text_facts *to, const struct ct_text_facts *from, int only_common) {
    for (size_t i = 0; i < from->count; i++) {
        if (only_common && !is_common(&from->list[i]))
            continue;
        CT_HEAP_GROW(to->list, to->count, to->room);
        to->list[to->count++] = from->list[i];
    }
    add_stamps(to, from);
}

static void add_own(struct ct_text_facts *to, const struct ct_text_facts *from) {
    add_facts(to, from, 0);
    to->lines += from->lines;
    to->found += from->found;
    to->programs |= from->programs;
    if (from->load.lines || from->load.preempted_line)
        to->load = from->load;
    if (from->step.line)
        to->step = from->step;
    for (int i = 0; i < CT_TEXT_FLAGS; i++)
        if (!*to->settings[i].value)
            to->settings[i] = from->settings[i];
}

static void add_settings(struct ct_text_facts *to, const struct ct_text_facts *whole) {
    for (int i = 0; i < CT_TEXT_FLAGS; i++)
        if (!*to->settings[i].value)
            to->settings[i] = whole->settings[i];
    memcpy(to->version, whole->version, sizeof to->version);
    to->programs |= whole->programs;
    to->capacity = whole->capacity;
}

static int compare_lines(const void *a, const void *b) {
    const struct ct_text_fact *x = a, *y = b;
    return x->line < y->line ? -1 : x->line > y->line;
}

// Puts the facts from `first` on in the order of the log.
static void sort_facts(struct ct_text_facts *f, size_t first) {
    if (f->count > first)
        qsort(f->list + first, f->count - first, sizeof *f->list, compare_lines);
}

void ct_log_owners_read(const struct ct_log_owners *o, const struct ct_text_facts *whole,
                        size_t process, struct ct_text_facts *to) {
    ct_text_facts_init(to);
    for (size_t i = 0; i < o->lines->count; i++)
        if (o->list[i].process == process)
            add_own(to, &o->lines->list[i]->facts);
    sort_facts(to, 0);
    const size_t own = to->count;
    for (size_t i = 0; i < o->lines->count && process != CT_LOG_SHARED; i++)
        if (o->list[i].process == CT_LOG_SHARED)
            add_facts(to, &o->lines->list[i]->facts, 1);
    sort_facts(to, own);
    add_settings(to, whole);
}

// ---- one process alone --------------------------------------------------------------------------

// The part of the lines whose tag has the process id; 0: none, or it is not the only one.
static size_t find_own(const struct ct_process_lines *l, const struct ct_process *p) {
    for (size_t i = 1; i < l->count; i++)
        if (l->list[i]->tag.has_pid && is_named(p, &l->list[i]->tag))
            return has_namesake(l, i) ? 0 : i;
    return 0;
}

// Of "Worker_TP0" and "EngineCore_DP1" what stands before the number's name.
static size_t kind_length(const char *name) {
    return strcspn(name, "_0123456789");
}

static int is_same_kind(const char *a, const char *b) {
    const size_t n = kind_length(a);
    return n && n == kind_length(b) && memcmp(a, b, n) == 0;
}

static int has_number(const char *rank) {
    return *rank && rank[strspn(rank, "0123456789")] == 0;
}

// Whether the lines are those of a peer. `own`: the part that is the process's by its id, or 0. A
// process of another kind may speak for this one, as vLLM's engine does for its workers.
static int is_peer(const struct ct_process_lines *l, size_t part, const struct ct_process *p,
                   size_t own) {
    const struct ct_line_tag *tag = &l->list[part]->tag;
    if (tag->has_pid)
        return own && part != own && is_same_kind(tag->name, l->list[own]->tag.name);
    return tag->has_rank && p->rank && !p->rank_is_local && has_number(p->rank) &&
           !is_rank(p, tag->rank);
}

uint64_t ct_log_owners_read_one(const struct ct_process_lines *lines, const struct ct_process *p,
                                const struct ct_text_facts *whole, struct ct_text_facts *to) {
    const size_t own = find_own(lines, p);
    uint64_t left_out = 0;
    for (size_t i = 1; i < lines->count; i++)
        left_out += is_peer(lines, i, p, own) ? lines->list[i]->facts.lines : 0;
    if (!left_out)
        return 0;
    ct_text_facts_init(to);
    for (size_t i = 0; i < lines->count; i++)
        if (i != own && (!i || !is_peer(lines, i, p, own)))
            add_own(to, &lines->list[i]->facts);
    if (own) // (last: its load and its step count)
        add_own(to, &lines->list[own]->facts);
    sort_facts(to, 0);
    add_settings(to, whole);
    to->bytes = whole->bytes;
    return left_out;
}

// ---- the error message -------------------------------------------------------------------------

// PyTorch names what a request was rounded to: blocks to 512 B, segments to 2 MiB.
#define ROUNDING (UINT64_C(2) << 20)

// Whether a value of the message, known to its last digit, is that of the trace.
static int is_near(const struct ct_text_value *said, uint64_t is, uint64_t rounding) {
    if (said->value < 0)
        return 0;
    const uint64_t value = (uint64_t)said->value, step = (uint64_t)said->step;
    return value + step + 1 >= is && value <= is + step + rounding;
}

// How well an event fits: 0: not at all. Size and device must fit where both are known; what was
// free differs where other processes allocate, and then speaks for another event.
static int weigh(const struct ct_oom_event *o, const struct ct_text_fact *m,
                 struct ct_found_error *f) {
    const struct ct_text_value *tried = &m->values[CT_TEXT_TRIED], *gpu = &m->values[CT_TEXT_GPU],
                               *free = &m->values[CT_TEXT_FREE];
    f->by_size = tried->known && o->bytes_known;
    f->by_device = gpu->known && o->device < CT_MAX_DEVICES;
    f->by_free = free->known && o->reading_known && is_near(free, o->free, 0);
    if (tried->known != o->bytes_known || (f->by_size && !is_near(tried, o->bytes, ROUNDING)))
        return 0;
    if (f->by_device && gpu->value != o->device)
        return 0;
    return 1 + 2 * f->by_free;
}

struct ct_found_error ct_find_error(const struct ct_incidents *n,
                                    const struct ct_text_fact *message) {
    struct ct_found_error best = {0};
    int most = 0;
    for (size_t i = 0; message && i < n->oom_count; i++) {
        struct ct_found_error one = {.event = ct_incidents_head(n, n->ooms[i].incident),
                                     .fitting = 1};
        const int weight = weigh(&n->ooms[i], message, &one);
        if (!weight || weight < most)
            continue;
        if (weight == most)
            one.fitting = best.fitting + (one.event != best.event);
        most = weight;
        best = one;
    }
    return best;
}

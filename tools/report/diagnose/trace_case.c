// SPDX-License-Identifier: Apache-2.0
#include "diagnose/trace_case.h"

#include <cutrace/model/measured.h>
#include <stdlib.h>

// ---- captures of graphs -------------------------------------------------------------------------

// Events of the end of an executable have its handle.
static int is_instantiation(const struct ct_event *e) {
    return ct_measured_part_of(e) == CT_MEASURED_GRAPHS && !CT_HAS(e, handle) && CT_HAS(e, stack) &&
           !(CT_HAS(e, result) && e->result);
}

struct ct_graph_captures ct_graph_captures_read(struct ct_trace *t, struct ct_phases *phases,
                                                int device, uint64_t to_ns) {
    struct ct_graph_captures g = {0};
    struct ct_event e;
    uint64_t number;
    ct_trace_rewind(t);
    while (ct_trace_next(t, &e, &number) && e.t_ns <= to_ns) {
        if (!is_instantiation(&e) || !CT_HAS(&e, device) || (int)e.device != device ||
            ct_phases_find(phases, e.stack).phase != CT_PHASE_GRAPHS)
            continue;
        g.count++;
        if (!CT_HAS(&e, free_before_bytes) || !CT_HAS(&e, free_bytes) ||
            e.free_before_bytes < e.free_bytes)
            continue;
        g.measured++;
        g.bytes += e.free_before_bytes - e.free_bytes;
    }
    return g;
}

// ---- the request as the rules see it ------------------------------------------------------------

static void read_figures(struct ct_judged *j) {
    const struct ct_oom_event *o = j->oom;
    struct ct_figures *n = &j->n;
    ct_figures_clear(n);
    if (o->bytes_known)
        n->tried = ct_figure(o->bytes);
    if (o->bytes_known && o->segment_bytes >= o->bytes + j->reason.step)
        n->segment = ct_figure(o->segment_bytes);
    if (j->reason.free_known)
        n->free = ct_figure(j->reason.free);
    n->others = ct_figure(j->cause.others_bytes);
    n->held = ct_figure(o->pool.held_open_bytes);
}

void ct_judged_make(struct ct_judged *j, const struct ct_trace_case *c, struct ct_verdicts *to) {
    const struct ct_oom_event *o = c->crossing;
    *j = (struct ct_judged){.c = c, .oom = o};
    j->reason = ct_oom_reason_find(o, 0);
    j->cause = ct_oom_cause_find(o, &j->reason, &c->scan->growths);
    // Other traced processes are no strangers.
    if (j->cause.others_bytes && c->siblings && c->siblings->count)
        j->cause.others_bytes =
            ct_oom_cause_judge_others(o, j->cause.missing, ct_judged_row(j, CT_ACCOUNT_OTHERS));
    j->phase = o->phase.phase;
    j->component = ct_phases_find_component(c->phases, o->stack);
    read_figures(j);
    j->rules = (struct ct_rule_source){.to = to,
                                       .device = o->device < CT_MAX_DEVICES ? o->device : -1,
                                       .figures = &j->n,
                                       .is_event = 1,
                                       .event = o->event,
                                       .t_ns = o->t_ns,
                                       .self = j};
}

uint64_t ct_judged_row(const struct ct_judged *j, enum ct_account_row_kind kind) {
    return j->c->account->row[kind].bytes;
}

// ---- evidence -----------------------------------------------------------------------------------

void ct_judged_add_request(const void *judged, struct ct_verdict *v) {
    const struct ct_judged *j = judged;
    ct_rule_say(&j->rules, v,
                "asked for {<tried:bytes!>[, for which PyTorch asked the driver for "
                "<segment:bytes>]|an unknown size}; {<free:bytes> was free|what was free is not "
                "known}");
}

void ct_judged_add_phase(const void *judged, struct ct_verdict *v) {
    const struct ct_judged *j = judged;
    if (j->phase != CT_PHASE_UNKNOWN)
        (void)ct_verdict_add_event(v, j->oom->event, j->oom->t_ns, "during: %s%s",
                                   ct_phases_title_of_event(&j->oom->phase).text,
                                   j->oom->phase.inferred ? " (by time)" : "");
}

void ct_judged_add_bytes(const struct ct_judged *j, struct ct_verdict *v, uint64_t bytes,
                         const char *text) {
    ct_evidence_set_bytes(
        ct_verdict_add_event(v, j->oom->event, j->oom->t_ns, "%s: %s", text, ct_iec(bytes).text),
        bytes);
}

void ct_judged_add_holding(const struct ct_judged *j, struct ct_verdict *v,
                           const struct ct_holding *most, uint64_t bytes, const char *text) {
    struct ct_evidence *e =
        ct_verdict_add_event(v, j->oom->event, j->oom->t_ns, "%s: %s, of which one stack holds %s",
                             text, ct_iec(bytes).text, ct_iec(most->bytes).text);
    ct_evidence_set_bytes(e, bytes);
    e->stack = most->stack;
}

void ct_judged_add_missing(const void *judged, struct ct_verdict *v) {
    const struct ct_judged *j = judged;
    ct_evidence_set_bytes(
        ct_verdict_add_event(v, j->oom->event, j->oom->t_ns, "missing: %s",
                             ct_oom_reason_missing(&j->reason, CT_UNITS_IEC).text),
        j->cause.missing);
}

// The largest row of at least 2 % of the device that was not said yet, or CT_ACCOUNT_ROWS.
static unsigned find_largest(const struct ct_account *a, const unsigned char *said) {
    unsigned largest = CT_ACCOUNT_ROWS;
    for (unsigned i = 0; i < CT_ACCOUNT_ROWS; i++)
        if (!said[i] && a->row[i].bytes >= a->capacity / 50 &&
            (largest == CT_ACCOUNT_ROWS || a->row[i].bytes > a->row[largest].bytes))
            largest = i;
    return largest;
}

const struct ct_holding *ct_judged_largest_other(const struct ct_judged *j) {
    const struct ct_holding *largest = NULL;
    for (size_t i = 0; i < j->c->live->holding_count; i++) {
        const struct ct_holding *h = &j->c->live->holdings[i];
        if (h->kind < CT_HOLDING_STACKS && h->stack && (!largest || h->bytes > largest->bytes) &&
            ct_phases_find_component(j->c->phases, h->stack) == CT_COMPONENT_OTHER)
            largest = h;
    }
    return largest;
}

// A row of the account; of what no rule names with the call site that holds the most.
static void add_row(const struct ct_judged *j, struct ct_verdict *v, unsigned row) {
    const struct ct_account *a = j->c->account;
    const struct ct_holding *most =
        row == (unsigned)CT_COMPONENT_OTHER ? ct_judged_largest_other(j) : NULL;
    const struct ct_human_text bytes = ct_iec(a->row[row].bytes), capacity = ct_iec(a->capacity);
    const char *title = row == (unsigned)CT_COMPONENT_OTHER
                            ? "unrecognized"
                            : ct_account_row_title((enum ct_account_row_kind)row);
    struct ct_evidence *e =
        most ? ct_verdict_add_event(v, j->oom->event, j->oom->t_ns,
                                    "%s: %s of %s, of which one stack holds %s", title, bytes.text,
                                    capacity.text, ct_iec(most->bytes).text)
             : ct_verdict_add_event(v, j->oom->event, j->oom->t_ns, "%s: %s of %s", title,
                                    bytes.text, capacity.text);
    ct_evidence_set_bytes(e, a->row[row].bytes);
    if (most)
        e->stack = most->stack;
}

void ct_judged_add_account(const void *judged, struct ct_verdict *v) {
    enum { MOST = 3 };
    const struct ct_judged *j = judged;
    const struct ct_account *a = j->c->account;
    unsigned char said[CT_ACCOUNT_ROWS] = {[CT_ACCOUNT_FREE] = 1, [CT_ACCOUNT_SIBLINGS] = 1};
    ct_judged_add_siblings(j, v);
    for (int n = 0; n < MOST && a->known; n++) {
        const unsigned i = find_largest(a, said);
        if (i == CT_ACCOUNT_ROWS)
            return;
        said[i] = 1;
        add_row(j, v, i);
    }
}

// The processes besides this one that NVML listed at the failure, those with the most first, to be
// freed. (Of those that were traced, too, their traces tell more. Where the numbers are those of
// another PID namespace and no process was found to be this one, none is said to be another one.)
static const struct ct_neighbour **list_strangers(const struct ct_judged *j, size_t *count) {
    size_t all = 0;
    *count = 0;
    if (!j->c->neighbours || j->oom->device >= CT_DEVICES)
        return NULL;
    const struct ct_neighbour **list =
        ct_neighbours_list(j->c->neighbours, j->oom->device, j->oom->t_ns, &all);
    for (size_t i = 0; i < all; i++)
        if (list[i]->whose == CT_NEIGHBOUR_OTHER)
            list[(*count)++] = list[i];
    return list;
}

static void add_neighbour(const struct ct_judged *j, struct ct_verdict *v,
                          const struct ct_neighbour *p) {
    char label[CT_NEIGHBOUR_LABEL];
    const uint64_t bytes = ct_neighbour_at(p, j->oom->t_ns);
    const struct ct_neighbour_rise rise = ct_neighbour_find_rise(p, j->oom->t_ns);
    const uint64_t start = j->c->trace->start_ns;
    ct_neighbour_label(&j->c->trace->definitions, p, label);
    struct ct_evidence *e =
        rise.bytes < j->c->capacity / 50
            ? ct_verdict_add_event(v, j->oom->event, j->oom->t_ns, "neighbour %s held %s", label,
                                   ct_iec(bytes).text)
            : ct_verdict_add_event(
                  v, j->oom->event, j->oom->t_ns,
                  "neighbour %s held %s; it grew by %s between %s and %s", label,
                  ct_iec(bytes).text, ct_iec(rise.bytes).text,
                  ct_human_elapsed(rise.from_ns > start ? rise.from_ns - start : 0).text,
                  ct_human_elapsed(rise.to_ns > start ? rise.to_ns - start : 0).text);
    ct_evidence_set_bytes(e, bytes);
}

void ct_judged_add_neighbours(const struct ct_judged *j, struct ct_verdict *v) {
    enum { MOST = 3 };
    size_t count, said = 0;
    const struct ct_neighbour **list = list_strangers(j, &count);
    for (size_t i = 0; i < count && said < MOST; i++) {
        const uint64_t bytes = ct_neighbour_at(list[i], j->oom->t_ns);
        if (!CT_NEIGHBOUR_IS_BYTES(bytes) || bytes < j->c->capacity / 50)
            continue;
        add_neighbour(j, v, list[i]);
        said++;
    }
    free(list);
}

int ct_judged_largest_neighbour(const struct ct_judged *j, char label[CT_NEIGHBOUR_LABEL],
                                uint64_t *bytes) {
    size_t count;
    int found = 0;
    const struct ct_neighbour **list = list_strangers(j, &count);
    for (size_t i = 0; i < count && !found; i++) {
        *bytes = ct_neighbour_at(list[i], j->oom->t_ns);
        found = CT_NEIGHBOUR_IS_BYTES(*bytes) && *bytes;
        if (found)
            ct_neighbour_label(&j->c->trace->definitions, list[i], label);
    }
    free(list);
    return found;
}

// How much more a process holds than before. Returns 0 if that is not known.
static int add_growth(uint64_t then, uint64_t now, uint64_t *bytes) {
    if (then == CT_NEIGHBOUR_GONE)
        then = 0;
    if (!CT_NEIGHBOUR_IS_BYTES(then) || !CT_NEIGHBOUR_IS_BYTES(now))
        return 0;
    *bytes += now > then ? now - then : 0;
    return 1;
}

int ct_judged_others_grown(const struct ct_judged *j, uint64_t from_ns, uint64_t *bytes) {
    const struct ct_neighbours *n = j->c->neighbours;
    size_t count;
    *bytes = 0;
    if (!n || j->oom->device >= CT_DEVICES || !n->device[j->oom->device].has_list || n->left_out)
        return 0;
    const struct ct_neighbour **list = list_strangers(j, &count);
    int known = 1;
    for (size_t i = 0; i < count && known; i++)
        known = add_growth(ct_neighbour_at(list[i], from_ns),
                           ct_neighbour_at(list[i], j->oom->t_ns), bytes);
    free(list);
    return known;
}

static void add_sibling(const struct ct_judged *j, struct ct_verdict *v,
                        const struct ct_sibling *s) {
    char name[CT_PROCESS_NAME];
    ct_process_name(s->process, name);
    struct ct_evidence *e = ct_verdict_add_event(
        v, j->oom->event, j->oom->t_ns, "%s%s held %s of the device%s%s",
        s->same_job ? "" : "another traced process, ", name, ct_iec(s->bytes).text,
        s->same_job ? ", of the same job" : "; whether it is of the same job is not known",
        s->is_last_seen ? "; it may have ended since its last event" : "");
    ct_evidence_set_bytes(e, s->bytes);
}

// The largest ones of at least 2 % of the device, and the sum of the rest.
void ct_judged_add_siblings(const struct ct_judged *j, struct ct_verdict *v) {
    enum { MOST = 3 };
    const struct ct_siblings *s = j->c->siblings;
    uint64_t rest = s ? s->bytes : 0;
    size_t said = 0;
    for (; s && said < s->count && said < MOST; said++) {
        if (s->list[said].bytes < j->c->capacity / 50)
            break;
        add_sibling(j, v, &s->list[said]);
        rest -= s->list[said].bytes;
    }
    if (s && said < s->count && rest >= j->c->capacity / 50)
        ct_judged_add_bytes(j, v, rest, said ? "all other traced processes" : "traced processes");
    if (s && s->unknown)
        (void)ct_verdict_add_text(v,
                                  "what %s other traced process%s held then is not known: it was "
                                  "overwritten, or their traces end before",
                                  ct_human_count(s->unknown).text, s->unknown == 1 ? "" : "es");
    if (s && s->unaligned)
        (void)ct_verdict_add_text(
            v, "%s other traced process%s used this device on a clock that cannot be compared",
            ct_human_count(s->unaligned).text, s->unaligned == 1 ? "" : "es");
}

// What the stacks of a KV cache have allocated.
struct cache {
    uint64_t bytes, first_event, first_ns, last_ns;
};

// Adds what a stack holds. Returns 0 if it has given something back, or holds it from before the
// trace.
static int add_to_cache(const struct ct_trace_case *c, const struct ct_holding *h,
                        struct cache *to) {
    const struct ct_stack_totals *all = &c->scan->totals[h->kind];
    const struct ct_stack_total *t = h->stack < all->count ? &all->list[h->stack] : NULL;
    if (!t || t->count != h->count || t->bytes != h->bytes)
        return 0;
    if (!to->bytes || t->first_ns < to->first_ns) {
        to->first_event = t->first_event;
        to->first_ns = t->first_ns;
    }
    to->last_ns = t->last_ns > to->last_ns ? t->last_ns : to->last_ns;
    to->bytes += h->bytes;
    return 1;
}

// Whether all of it was allocated at a time: in a small part of the time up to the request. (A
// cache that grows with its requests exists, too.)
static int is_allocated_at_once(const struct cache *k, uint64_t t_ns) {
    return k->bytes && t_ns > k->first_ns && k->last_ns - k->first_ns <= (t_ns - k->first_ns) / 4;
}

static int find_cache(const struct ct_judged *j, struct cache *cache) {
    *cache = (struct cache){0};
    for (size_t i = 0; i < j->c->live->holding_count; i++) {
        const struct ct_holding *h = &j->c->live->holdings[i];
        if (h->kind < CT_HOLDING_STACKS &&
            ct_phases_find_component(j->c->phases, h->stack) == CT_COMPONENT_KV_CACHE &&
            !add_to_cache(j->c, h, cache))
            return 0;
    }
    return is_allocated_at_once(cache, j->oom->t_ns);
}

int ct_judged_cache_time(const struct ct_judged *j, uint64_t *t_ns) {
    struct cache cache;
    const int known = find_cache(j, &cache);
    *t_ns = cache.last_ns;
    return known;
}

// The KV cache of a server is allocated once, and requests take blocks of it that are no memory of
// the device. Where that is true of this trace it is said, because the cache is the usual suspect.
void ct_judged_add_kv_cache(const void *judged, struct ct_verdict *v) {
    const struct ct_judged *j = judged;
    struct cache cache;
    if (find_cache(j, &cache))
        ct_evidence_set_bytes(
            ct_verdict_add_event(v, cache.first_event, cache.first_ns,
                                 "KV cache: %s, allocated once and never given back; it is "
                                 "not what grew",
                                 ct_iec(cache.bytes).text),
            cache.bytes);
}

// SPDX-License-Identifier: Apache-2.0
// Puts the results of analyze/oom_reason.c into words.
#include "print/verdict.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "print/label.h"
#include "print/pool_print.h"
#include "print/print.h"

// A text that grows as it is printed.
struct text {
    char *at;
    size_t size;
    FILE *out;
};

static void begin(struct text *t) {
    *t = (struct text){.at = NULL};
    t->out = ct_heap_open_text(&t->at, &t->size);
}

static char *end(struct text *t) {
    ct_heap_close_text(t->out);
    return t->at;
}

struct ct_human_text ct_verdict_time(const struct ct_view *v, uint64_t t_ns) {
    struct ct_human_text s = ct_label_time(v, t_ns);
    const struct ct_human_text wall = ct_label_utc(v, t_ns, 0);
    const size_t n = strlen(s.text);
    if (*wall.text)
        (void)snprintf(s.text + n, sizeof s.text - n, " (%.24s)", wall.text);
    return s;
}

void ct_verdict_print_thread(struct ct_view *v, uint32_t thread) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_string *name = &n->strings[n->threads[thread].name];
    fprintf(v->out, "%" PRIu64, n->threads[thread].tid);
    if (n->threads[thread].name) {
        putc(' ', v->out);
        ct_utf8_print_sanitized(v->out, name->at, name->length);
    }
}

// ---- the request --------------------------------------------------------------------------------

char *ct_verdict_request(struct ct_view *v, const struct ct_oom_event *o, uint64_t capacity) {
    const struct ct_oom_reason reason = ct_oom_reason_find(o, 0);
    char api[100] = "PyTorch";
    struct text t;
    begin(&t);
    if (o->op != CT_OP_BLOCK_OOM)
        ct_label_api(v, o->api, api, sizeof api);
    fprintf(t.out, "%s asked for %s", api,
            o->bytes_known ? ct_label_size(v, o->bytes).text : "an unknown size");
    if (reason.kind == CT_OOM_REASON_HOST_MEMORY)
        fputs(" of page-locked host memory", t.out);
    else if (reason.kind == CT_OOM_REASON_ADDRESS_SPACE)
        fputs(" of address space", t.out);
    else if (reason.free_known && v->options->capacity)
        fprintf(t.out, "; %s of the budget was free", ct_label_size(v, reason.free).text);
    else if (reason.free_known && capacity)
        fprintf(t.out, "; %s of %s was free", ct_label_size(v, reason.free).text,
                ct_label_size(v, capacity).text);
    else if (reason.free_known)
        fprintf(t.out, "; %s was free", ct_label_size(v, reason.free).text);
    return end(&t);
}

// ---- the cause ----------------------------------------------------------------------------------

static void print_missing(const struct ct_view *v, FILE *out, const struct ct_oom_event *o,
                          const struct ct_oom_reason *reason) {
    fprintf(out, "%s was missing", ct_oom_reason_missing(reason, v->options->units).text);
    if (o->segment_bytes >= o->bytes + reason->step)
        fprintf(out, " of the %s that PyTorch asked the driver for",
                ct_label_size(v, reason->rounded).text);
    else if (reason->rounded != o->bytes)
        fprintf(out, ": rounded up to %s it takes %s (inferred)",
                reason->step == 512 ? "512 B" : "2 MiB", ct_label_size(v, reason->rounded).text);
}

// Says what PyTorch's pool had for the request.
static void print_pool(const struct ct_view *v, FILE *out, const struct ct_pool_growth *w) {
    fprintf(out, "; PyTorch's pool had %s free for %s requests, ",
            ct_label_size(v, w->free.bytes).text,
            w->class == CT_TORCH_POOL_SMALL ? "small" : "large");
    if (w->cause == CT_GROWTH_FRAGMENTED)
        fprintf(out, "but in %s pieces of at most %s", ct_human_count(w->free.ranges).text,
                ct_label_size(v, w->free.largest).text);
    else if (ct_pool_growth_fits_other_stream(w))
        fprintf(out,
                "but did not use it: a free block of %s was in a segment of another stream, whose "
                "memory no request of this stream gets",
                ct_label_size(v, w->others.free.largest).text);
    else
        fputs("but did not use it (see frag)", out);
}

static void print_not_enough(const struct ct_view *v, FILE *out, const struct ct_oom_event *o,
                             const struct ct_oom_reason *reason,
                             const struct ct_pool_growths *growths) {
    const struct ct_oom_cause cause = ct_oom_cause_find(o, reason, growths);
    const uint64_t total = o->reading_known ? o->total : o->split.total;
    print_missing(v, out, o, reason);
    if (cause.exceeds_device)
        fputs("; the request is larger than the whole device", out);
    if (cause.pool)
        print_pool(v, out, cause.pool);
    if (cause.idle_bytes)
        fprintf(out, "; %s was idle in PyTorch's pool, in segments without a block",
                ct_label_size(v, cause.idle_bytes).text);
    if (cause.others_bytes)
        fprintf(out, "; other processes held %s", ct_label_size(v, cause.others_bytes).text);
    if (cause.mempool_idle_bytes)
        fprintf(out, "; %s was idle in CUDA's memory pools",
                ct_label_size(v, cause.mempool_idle_bytes).text);
    if (!cause.exceeds_device && !cause.pool && !cause.idle_bytes && !cause.others_bytes &&
        !cause.mempool_idle_bytes && total && o->split.tracked > total / 2)
        fprintf(out, "; this process's allocations held %s of the device",
                ct_human_percent(o->split.tracked, total).text);
}

static void print_budget(const struct ct_view *v, FILE *out, const struct ct_oom_event *o) {
    const uint64_t used = o->split.used_known ? o->split.used : o->split.tracked;
    const char *source = "as read from the device";
    if (!o->split.used_known)
        source = "this process's allocations alone";
    else if (o->split.moved_on)
        source = "the last reading and the allocations since";
    if (used > v->options->capacity)
        fprintf(out, "%s was in use (%s), more than the budget of %s", ct_label_size(v, used).text,
                source, ct_label_budget(v).text);
    else
        fprintf(out, "%s of the budget of %s was in use (%s)", ct_label_size(v, used).text,
                ct_label_budget(v).text, source);
}

// Nothing can be said of a cause without a size, but what was free around the call.
static void print_size_unknown(const struct ct_view *v, FILE *out, const struct ct_oom_event *o,
                               const struct ct_oom_reason *reason) {
    if (!reason->free_known) {
        fputs("the call does not say how much it needs, and what was free was not read", out);
        return;
    }
    fputs("the call does not say how much it needs; ", out);
    if (o->free_before_known && o->reading_known)
        fprintf(out, "%s was free before it, %s after it", ct_label_size(v, o->free_before).text,
                ct_label_size(v, o->free).text);
    else
        fprintf(out, "%s was free", ct_label_size(v, reason->free).text);
}

char *ct_verdict_cause(struct ct_view *v, const struct ct_oom_event *o,
                       const struct ct_pool_growths *growths) {
    const struct ct_oom_reason reason = ct_oom_reason_find(o, v->options->capacity != 0);
    struct text t;
    begin(&t);
    switch (reason.kind) {
    case CT_OOM_REASON_NOT_ENOUGH_FREE:
        print_not_enough(v, t.out, o, &reason, growths);
        break;
    case CT_OOM_REASON_ENOUGH_FREE:
        fprintf(t.out,
                "%s was free in total, which is enough: it was in pieces, or the driver or a limit "
                "kept it back (inferred)",
                ct_label_size(v, reason.free).text);
        break;
    case CT_OOM_REASON_HOST_MEMORY:
        fputs("page-locked host memory was missing, not memory of the GPU", t.out);
        break;
    case CT_OOM_REASON_ADDRESS_SPACE:
        fputs("addresses were missing, not memory", t.out);
        break;
    case CT_OOM_REASON_BUDGET:
        print_budget(v, t.out, o);
        break;
    case CT_OOM_REASON_POOL_LIMIT:
        fputs("PyTorch did not ask the driver: it has a limit of its own, such as a memory "
              "fraction (inferred)",
              t.out);
        break;
    case CT_OOM_REASON_SIZE_UNKNOWN:
        print_size_unknown(v, t.out, o, &reason);
        break;
    case CT_OOM_REASON_UNKNOWN:
        fputs(ct_oom_cause_find(o, &reason, NULL).exceeds_device
                  ? "the request is larger than the whole device; the free memory was not read"
                  : "not known: the free memory was not read",
              t.out);
        break;
    }
    return end(&t);
}

// ---- incidents ----------------------------------------------------------------------------------

char *ct_verdict_incidents(const struct ct_incidents *n) {
    const struct ct_incident_counts c = ct_incidents_count(n);
    const char *how = c.freed == c.retried ? "freeing memory and retrying" : "retrying";
    struct text t;
    begin(&t);
    if (!c.failed) {
        fprintf(t.out, "%zu incident%s, recovered by PyTorch %s", c.retried,
                ct_human_plural(c.retried), how);
        return end(&t);
    }
    fprintf(t.out, "%zu incident%s", c.failed, ct_human_plural(c.failed));
    if (c.recovered_later && c.failed == 1)
        fputs(", followed by a success of the same size", t.out);
    else if (c.recovered_later)
        fprintf(t.out, ", %zu followed by a success of the same size", c.recovered_later);
    if (c.retried)
        fprintf(t.out, " (%zu more recovered by PyTorch %s)", c.retried, how);
    return end(&t);
}

char *ct_verdict_all_alike(struct ct_view *v, const struct ct_incidents *n,
                           const struct ct_incident_group *g) {
    const struct ct_oom_event *first = ct_incidents_head(n, g->first),
                              *last = ct_incidents_head(n, g->last);
    struct text t;
    begin(&t);
    fprintf(t.out, "%zu of this call%s and outcome", g->count, first->stack ? " site" : "");
    if (g->smallest < g->largest)
        fprintf(t.out, ", of %s to %s", ct_label_size(v, g->smallest).text,
                ct_label_size(v, g->largest).text);
    fprintf(t.out, ", from %s, event %" PRIu64, ct_label_time(v, first->t_ns).text, first->event);
    fprintf(t.out, ", to %s, event %" PRIu64, ct_label_time(v, last->t_ns).text, last->event);
    return end(&t);
}

void ct_verdict_print_moment(struct ct_view *v, const struct ct_moment *m) {
    static const char *const words[] = {"the OOM, ", "the peak, ", "the end, ", ""};
    fprintf(v->out, "as of %s%s", words[m->kind], ct_verdict_time(v, m->t_ns).text);
    if (m->event != UINT64_MAX)
        fprintf(v->out, ", event %" PRIu64, m->event);
    fputs("; what came later is left out\n", v->out);
}

// ---- verdicts -----------------------------------------------------------------------------------

static void print_head(struct ct_view *v, const struct ct_verdict *one, int is_first) {
    const struct ct_terminal *t = v->terminal;
    fprintf(v->out, "%s%s%s: " CT_WRAP_HANG "%s", is_first ? t->bold : "",
            is_first ? "verdict" : "also possible", is_first ? t->reset : "",
            ct_scenario_title(one->scenario));
    if (one->device >= 0)
        fprintf(v->out, ", %s", ct_label_device(one->device).text);
    fprintf(v->out, " (%s)\n", ct_verdict_name(one).text);
    fprintf(v->out, "  %s\n", one->summary);
}

static void print_evidence(struct ct_view *v, const struct ct_evidence *e) {
    fprintf(v->out, "  evidence  " CT_WRAP_HANG "%s", e->text);
    if (e->stack && v->trace) {
        fputs(": ", v->out);
        ct_print_callers(v, e->stack, 3);
    }
    if (e->event_known && v->trace)
        fprintf(v->out, " (event %" PRIu64 " at %s)", e->event, ct_label_time(v, e->t_ns).text);
    putc('\n', v->out);
}

// Prints "--kv-cache-memory-bytes 8G -> 7G (vLLM 0.10.2 and later): why", the end of a line.
static void print_advice(struct ct_view *v, const struct ct_advice *a) {
    if (a->flag) {
        fputs(a->flag, v->out);
        if (a->from)
            fprintf(v->out, " %s", a->from);
        // (a variable of the environment that was not set: as it is set)
        if (a->to)
            fprintf(v->out, "%s%s", a->from || *a->flag == '-' ? " -> " : "=", a->to);
        if (a->versions)
            fprintf(v->out, " (%s)", a->versions);
        fputs(": ", v->out);
    }
    fprintf(v->out, "%s\n", a->text);
}

void ct_verdicts_print_change(struct ct_view *v, const struct ct_verdict *one) {
    if (!one->advice_count)
        return;
    fprintf(v->out, "  %-8s " CT_WRAP_HANG, "change");
    print_advice(v, &one->advice[0]);
}

void ct_verdicts_print_end(struct ct_view *v, const struct ct_verdict *one) {
    for (size_t i = 0; i < one->advice_count; i++) {
        fputs("  change    " CT_WRAP_HANG, v->out);
        print_advice(v, &one->advice[i]);
    }
    if (one->refuted_by)
        fprintf(v->out, "  wrong if  " CT_WRAP_HANG "there is %s\n", one->refuted_by);
}

void ct_verdicts_print(struct ct_view *v, const struct ct_verdicts *l, size_t most) {
    for (size_t i = 0; i < l->count && i < most; i++) {
        const struct ct_verdict *one = &l->list[i];
        if (i && one->scenario == CT_SCENARIO_NONE)
            continue; // beside a problem it is none of the possibilities
        print_head(v, one, i == 0);
        for (size_t k = 0; k < one->evidence_count; k++)
            print_evidence(v, &one->evidence[k]);
        ct_verdicts_print_end(v, one);
    }
}

// ---- verdicts in JSON ---------------------------------------------------------------------------

static void add_evidence(struct ct_json *j, const struct ct_evidence *e,
                         struct ct_call_sites *sites) {
    ct_json_open(j, NULL, '{');
    ct_json_number_or_null(j, "event", e->event_known, e->event);
    ct_json_number_or_null(j, "t_ns", e->event_known, e->t_ns);
    ct_json_number_or_null(j, "bytes", e->bytes_known, e->bytes);
    ct_json_text(j, "text", e->text);
    if (e->stack && sites)
        ct_call_sites_json_stack(j, sites, "stack", e->stack);
    else
        ct_json_null(j, "stack");
    ct_json_close(j, '}');
}

static void add_advice(struct ct_json *j, const struct ct_advice *a) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "text", a->text);
    ct_json_text_or_null(j, "flag", a->flag);
    ct_json_text_or_null(j, "from", a->from);
    ct_json_text_or_null(j, "to", a->to);
    ct_json_text_or_null(j, "versions", a->versions);
    ct_json_close(j, '}');
}

static void add_verdict(struct ct_json *j, const struct ct_verdict *v,
                        struct ct_call_sites *sites) {
    ct_json_text(j, "scenario", ct_scenario_name(v->scenario));
    ct_json_ratio(j, "confidence", (uint64_t)(v->confidence * 10000 + 0.5), 10000);
    ct_json_text_or_null(j, "sureness", ct_verdict_sureness(v));
    ct_json_number_or_null(j, "device", v->device >= 0, (uint64_t)v->device);
    ct_json_text(j, "summary", v->summary);
    ct_json_open(j, "evidence", '[');
    for (size_t i = 0; i < v->evidence_count; i++)
        add_evidence(j, &v->evidence[i], sites);
    ct_json_close(j, ']');
    ct_json_open(j, "advice", '[');
    for (size_t i = 0; i < v->advice_count; i++)
        add_advice(j, &v->advice[i]);
    ct_json_close(j, ']');
    ct_json_text_or_null(j, "refuted_by", v->refuted_by);
}

static void add_verdicts(struct ct_json *j, const struct ct_verdicts *l,
                         struct ct_call_sites *sites, int of_processes) {
    ct_json_open(j, "verdicts", '[');
    for (size_t i = 0; i < l->count; i++) {
        ct_json_open(j, NULL, '{');
        add_verdict(j, &l->list[i], sites);
        if (of_processes) {
            ct_json_open(j, "process_indexes", '[');
            for (size_t k = 0; k < l->list[i].process_count; k++)
                ct_json_number(j, NULL, l->list[i].processes[k]);
            ct_json_close(j, ']');
        }
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

void ct_verdicts_add_json(struct ct_json *j, const struct ct_verdicts *l,
                          struct ct_call_sites *sites) {
    add_verdicts(j, l, sites, 0);
}

void ct_verdicts_add_json_of_processes(struct ct_json *j, const struct ct_verdicts *l) {
    add_verdicts(j, l, NULL, 1);
}

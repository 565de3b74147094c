// SPDX-License-Identifier: Apache-2.0
// A condition is judged on figures that other views show, and each line names them. What is not
// known passes nothing: a test that cannot fail is worth nothing.
#include "views/gate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "compare/gate_figures.h"
#include "print/label.h"
#include "print/trace_state.h"

enum { LINE = 900, SHARE = 10000 };

enum outcome { NOT_MET, UNKNOWN, MET };

struct side {
    struct ct_view *v;
    struct ct_gate_figures figures;
    char why[500]; // why a figure that is below a bound may be above it; "" if it is not
};

struct gate {
    struct side now, before; // before.v: NULL without a diff
    const struct ct_fail_condition *c;
    enum outcome outcome; // of the condition
};

static void say(struct gate *g, enum outcome outcome, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Prints a line about the condition.
static void say(struct gate *g, enum outcome outcome, const char *format, ...) {
    char text[LINE];
    va_list list;
    if (outcome > g->outcome)
        g->outcome = outcome;
    int n =
        snprintf(text, sizeof text, "--fail-on=%.*s: %s: %.300s: ", (int)g->c->length, g->c->text,
                 outcome == MET ? "failed" : "not known", g->now.v->trace->source.name);
    va_start(list, format);
    (void)vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    ct_terminal_warn(text);
}

static struct ct_human_text size_of(const struct gate *g, uint64_t bytes) {
    return ct_label_size(g->now.v, bytes);
}

static struct ct_human_text time_of(const struct gate *g, uint64_t t_ns) {
    return ct_label_time(g->now.v, t_ns);
}

static struct ct_label_device device_of(const struct gate *g, int device) {
    return ct_label_device_in_full(g->now.v, device, NULL);
}

// ---- what is not known --------------------------------------------------------------------------

static void find_why(struct side *s) {
    const struct ct_trace *t = s->v->trace;
    const uint64_t lost = ct_trace_count_lost(s->v->trace, s->figures.lost);
    char estimate[300];
    if (t->incomplete && t->events)
        (void)snprintf(s->why, sizeof s->why, "INCOMPLETE: what happened after %s is not known",
                       ct_label_time(s->v, t->t_last_ns).text);
    else if (t->incomplete)
        (void)snprintf(s->why, sizeof s->why, "INCOMPLETE: there is no event");
    else if (t->running)
        (void)snprintf(s->why, sizeof s->why,
                       "the process still records; what follows %s is not known",
                       ct_label_time(s->v, t->t_last_ns).text);
    else if (t->index.damages || t->index.missing)
        (void)snprintf(s->why, sizeof s->why,
                       "parts of the trace are damaged or missing; see check");
    else if (lost)
        (void)snprintf(s->why, sizeof s->why, "%" PRIu64 " event%s lost", lost,
                       lost == 1 ? " was" : "s were");
    else if (t->overwritten_events && !ct_coarse_history_exists(t))
        (void)snprintf(s->why, sizeof s->why, "the beginning was overwritten");
    else if (ct_trace_state_estimate(t, estimate, sizeof estimate))
        (void)snprintf(s->why, sizeof s->why, "%.290s", estimate);
}

// A figure does not exceed its bound: whether that is certain.
static void pass(struct gate *g, const char *figure) {
    if (*g->now.why)
        say(g, UNKNOWN, "%s; %s", figure, g->now.why);
    else if (g->c->is_change && *g->before.why)
        say(g, UNKNOWN, "%s; of %.200s: %s", figure, g->before.v->trace->source.name,
            g->before.why);
}

// ---- conditions on events -----------------------------------------------------------------------

static void judge_oom(struct gate *g) {
    const struct ct_gate_figures *f = &g->now.figures;
    if (f->incidents.failed)
        say(g, MET,
            "%zu request%s ran out of memory and the program got the error, the first at %s "
            "(%zu succeeded later; oom lists them)",
            f->incidents.failed, ct_human_plural(f->incidents.failed),
            time_of(g, f->first_failure_ns).text, f->incidents.recovered_later);
    else if (f->over_known)
        say(g, MET, "the budget of %s would have been exceeded at %s (summary has it)",
            ct_label_budget(g->now.v).text, time_of(g, f->over_t_ns).text);
    else if (f->overwritten_ooms)
        say(g, UNKNOWN,
            "%" PRIu64 " allocation%s failed in the time whose events are overwritten; whether a "
            "retry succeeded is not known",
            f->overwritten_ooms, ct_human_plural(f->overwritten_ooms));
    else
        pass(g, "no request ran out of memory so far");
}

static void judge_lost(struct gate *g) {
    const struct ct_trace *t = g->now.v->trace;
    const uint64_t lost = ct_trace_count_lost(g->now.v->trace, g->now.figures.lost);
    if (lost || t->index.damages || t->index.missing)
        say(g, MET,
            "%" PRIu64 " event%s lost, %" PRIu64 " chunk%s missing, %zu place%s damaged (check)",
            lost, lost == 1 ? " was" : "s were", (uint64_t)t->index.missing,
            t->index.missing == 1 ? " is" : "s are", (size_t)t->index.damages,
            t->index.damages == 1 ? " is" : "s are");
    else if (t->incomplete || t->running)
        pass(g, "nothing is known to be lost so far");
}

// ---- conditions on figures ----------------------------------------------------------------------

// The same device of A: of the same ordinal, or the only one of each side.
static const struct ct_gate_device *find_before(const struct gate *g, int device) {
    const struct ct_gate_device *only[2] = {NULL, NULL};
    unsigned used[2] = {0, 0};
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_gate_device *of[2] = {&g->before.figures.device[d],
                                              &g->now.figures.device[d]};
        for (int side = 0; side < 2; side++)
            if (of[side]->is_used) {
                only[side] = of[side];
                used[side]++;
            }
    }
    if (used[0] == 1 && used[1] == 1)
        return only[0];
    return g->before.figures.device[device].is_used ? &g->before.figures.device[device] : NULL;
}

// Whether a figure exceeds the bound of a condition that is not of a share of something else.
static int exceeds(const struct ct_fail_condition *c, uint64_t now, uint64_t before) {
    if (!c->is_change)
        return now > c->bytes;
    if (now <= before)
        return 0;
    if (!c->is_share)
        return now - before > c->bytes;
    return (unsigned __int128)(now - before) * SHARE > (unsigned __int128)before * c->share;
}

// " (A: 20.00 GiB, +1.00 GiB)" of a condition on a change, else "".
struct change {
    char text[120];
};

static struct change change_of(const struct gate *g, uint64_t now, uint64_t before) {
    struct change s = {""};
    const uint64_t by = now > before ? now - before : before - now;
    if (g->c->is_change)
        (void)snprintf(s.text, sizeof s.text, ", in A %s, a change of %c%s",
                       size_of(g, before).text, now < before ? '-' : '+', size_of(g, by).text);
    return s;
}

static void judge_peak(struct gate *g, int device, const struct ct_gate_device *d,
                       const struct ct_gate_device *before) {
    const uint64_t was = before ? before->peak_bytes : 0;
    char figure[400];
    (void)snprintf(figure, sizeof figure, "%s: the most that was allocated at once is %s, at %s%s",
                   device_of(g, device).text, size_of(g, d->peak_bytes).text,
                   time_of(g, d->peak_t_ns).text, change_of(g, d->peak_bytes, was).text);
    if (exceeds(g->c, d->peak_bytes, was))
        say(g, MET, "%s (summary has it)", figure);
    else
        pass(g, figure);
}

// Whether the growth of a side is known to be no more than its rate.
static int is_growth_known(const struct gate *g, const struct ct_gate_growth *w, uint64_t bound) {
    if (w->is_short)
        return 0;
    return w->per_hour + w->untold_per_hour <= bound || (g->c->is_change && !w->untold_bytes);
}

static void say_growth_unknown(struct gate *g, int device, const struct ct_gate_growth *w,
                               const char *of) {
    if (w->is_short)
        say(g, UNKNOWN, "%s: growth%s is not known: %s of at least %s were judged (leaks)",
            device_of(g, device).text, of,
            w->judged_ns ? ct_human_seconds(w->judged_ns).text : "0 s",
            ct_human_seconds(w->shortest_ns).text);
    else
        say(g, UNKNOWN,
            "%s: growth%s is %s an hour, and of call sites that hold %s it is not known whether "
            "they grow (leaks)",
            device_of(g, device).text, of, size_of(g, w->per_hour).text,
            size_of(g, w->untold_bytes).text);
}

static void judge_growth(struct gate *g, int device, const struct ct_gate_device *d,
                         const struct ct_gate_device *before) {
    const struct ct_gate_growth none = {.is_short = 0}, *w = &d->growth,
                                *was = before ? &before->growth : &none;
    char figure[500];
    (void)snprintf(figure, sizeof figure,
                   "%s: what only grows does so by %s an hour, judged over %s%s",
                   device_of(g, device).text, size_of(g, w->per_hour).text,
                   w->judged_ns ? ct_human_seconds(w->judged_ns).text : "0 s",
                   change_of(g, w->per_hour, was->per_hour).text);
    const int is_before_known = !g->c->is_change || is_growth_known(g, was, 0);
    if (is_before_known && exceeds(g->c, w->per_hour, was->per_hour))
        say(g, MET, "%s (leaks has it)", figure);
    else if (!is_before_known)
        say_growth_unknown(g, device, was, " of A");
    else if (!is_growth_known(g, w, g->c->bytes))
        say_growth_unknown(g, device, w, "");
    else
        pass(g, figure);
}

// Free memory outside the largest free block, of all in the pool, in hundredths of a percent.
static uint64_t scattered_of(const struct ct_torch_pool_totals *p) {
    return p->free.bytes - p->free.largest;
}

static int exceeds_share(const struct ct_fail_condition *c, const struct ct_torch_pool_totals *now,
                         const struct ct_torch_pool_totals *before) {
    const unsigned __int128 of = now->segment_bytes, was = before->segment_bytes,
                            part = scattered_of(now), part_was = scattered_of(before);
    if (!of)
        return 0;
    if (!c->is_change || !was)
        return part * SHARE > of * c->share;
    return part * SHARE * was > (part_was * SHARE + was * c->share) * of;
}

static void judge_frag(struct gate *g, int device, const struct ct_gate_device *d,
                       const struct ct_gate_device *before) {
    const struct ct_torch_pool_totals *p = &d->pool, none = {.known = 1},
                                      *was = before && before->pool.known ? &before->pool : &none;
    char figure[600], change[80] = "";
    if (!p->known)
        return; // no block of PyTorch's; another device has some
    if (g->c->is_change)
        (void)snprintf(change, sizeof change, ", in A %s",
                       ct_human_percent(scattered_of(was), was->segment_bytes).text);
    (void)snprintf(figure, sizeof figure,
                   "%s: %s at %s, %s of the %s in PyTorch's segments are free and scattered: "
                   "outside the largest free block, %s%s",
                   device_of(g, device).text, d->pool_at_oom ? "at the OOM" : "at the peak",
                   time_of(g, d->pool_t_ns).text, size_of(g, scattered_of(p)).text,
                   size_of(g, p->segment_bytes).text,
                   ct_human_percent(scattered_of(p), p->segment_bytes).text, change);
    if (d->peak_is_overwritten && !d->pool_at_oom)
        say(g, UNKNOWN, "%s: the pool at the peak is not known: the events then were overwritten",
            device_of(g, device).text);
    else if (exceeds_share(g->c, p, was))
        say(g, MET, "%s (frag has it)", figure);
    else
        pass(g, figure);
}

static void judge_device(struct gate *g, int device, const struct ct_gate_device *d,
                         const struct ct_gate_device *before) {
    if (g->c->is_change && !before)
        say(g, UNKNOWN, "%s: A has no memory of this device", device_of(g, device).text);
    else if (g->c->kind == CT_FAIL_PEAK)
        judge_peak(g, device, d, before);
    else if (g->c->kind == CT_FAIL_GROWTH)
        judge_growth(g, device, d, before);
    else
        judge_frag(g, device, d, before);
}

static void judge_devices(struct gate *g) {
    const struct ct_gate_figures *f = &g->now.figures;
    if (!f->any_used) {
        say(g, UNKNOWN, "no GPU memory was allocated%s; is the program traced?",
            ct_trace_state_until(g->now.v).text);
        return;
    }
    if (g->c->kind == CT_FAIL_FRAG && !f->any_pool) {
        say(g, UNKNOWN, "no block of PyTorch's was recorded, so nothing is known of its pool");
        return;
    }
    for (int d = 0; d < CT_DEVICES; d++)
        if (f->device[d].is_used)
            judge_device(g, d, &f->device[d], g->c->is_change ? find_before(g, d) : NULL);
}

static void judge_condition(struct gate *g) {
    if (g->c->kind == CT_FAIL_OOM)
        judge_oom(g);
    else if (g->c->kind == CT_FAIL_LOST)
        judge_lost(g);
    else
        judge_devices(g);
}

// ---- interface ----------------------------------------------------------------------------------

static void read_side(struct side *s, struct ct_view *v, const struct ct_fail_on *of) {
    struct ct_gate_request request = {.sites = v->sites,
                                      .phases = v->phases,
                                      .from_ns = v->from_ns,
                                      .to_ns = v->to_ns,
                                      .device = v->options->device,
                                      .capacity = v->options->capacity};
    for (unsigned i = 0; i < of->count; i++)
        request.with_growth |= of->list[i].kind == CT_FAIL_GROWTH;
    s->v = v;
    ct_gate_figures_read(&s->figures, v->trace, &request);
    find_why(s);
}

int ct_gate_judge(struct ct_view *v, struct ct_view *before) {
    const struct ct_fail_on *of = &v->options->fail_on;
    struct gate *g = ct_heap_alloc_zeroed(1, sizeof *g);
    enum outcome worst = NOT_MET;
    read_side(&g->now, v, of);
    if (before && ct_fail_on_has_change(of))
        read_side(&g->before, before, of);
    for (unsigned i = 0; i < of->count; i++) {
        g->c = &of->list[i];
        g->outcome = NOT_MET;
        judge_condition(g);
        worst = g->outcome > worst ? g->outcome : worst;
    }
    free(g);
    if (worst == MET)
        return CT_EXIT_CONDITION;
    return worst == UNKNOWN ? CT_EXIT_INCOMPLETE : CT_EXIT_OK;
}

int ct_gate_worse(int a, int b) {
    static const int ranks[] = {
        [CT_EXIT_OK] = 0,         [CT_EXIT_USAGE] = 1,     [CT_EXIT_BAD_TRACE] = 2,
        [CT_EXIT_INCOMPLETE] = 3, [CT_EXIT_CONDITION] = 4, [CT_EXIT_OUTPUT] = 5,
    };
    return ranks[a] >= ranks[b] ? a : b;
}

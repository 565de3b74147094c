// SPDX-License-Identifier: Apache-2.0
#include "compare/gate_figures.h"

#include "analyze/coarse_history.h"
#include "question/question.h"

#define HOUR UINT64_C(3600000000000)

static void read_device(struct ct_gate_device *d, const struct ct_scan *s, const struct ct_trace *t,
                        int device, const struct ct_oom_event *crossing) {
    const struct ct_device_scan *of = &s->device[device];
    const struct ct_coarse_summary past = ct_coarse_history_summarize(t, device);
    d->is_used = of->seen && of->peak_known;
    d->peak_bytes = of->peak_bytes;
    d->peak_t_ns = of->peak_t_ns;
    if (past.known && !s->request.from_ns && past.peak_bytes > d->peak_bytes) {
        d->is_used = d->peak_is_overwritten = 1;
        d->peak_bytes = past.peak_bytes;
        d->peak_t_ns = past.peak_ns;
    }
    d->pool_at_oom = crossing && crossing->device == device && crossing->pool.known;
    d->pool = d->pool_at_oom ? crossing->pool : of->pool_at_peak;
    d->pool_t_ns = d->pool_at_oom ? crossing->t_ns : of->peak_t_ns;
}

// Growth over the range, as `leaks` judges it: up to the OOM that was not recovered, else the end.
static void read_growth(struct ct_gate_growth *g, struct ct_trace *t, const struct ct_scan *s,
                        int device, const struct ct_gate_request *q) {
    const struct ct_oom_event *o = ct_scan_find_crossing(s);
    const int is_oom = o && !o->recovered && ct_incidents_is_device_memory(o);
    const struct ct_moment moment =
        ct_moment_find(s, t, is_oom ? CT_MOMENT_OOM : CT_MOMENT_END, device, NULL);
    const struct ct_leaks_request request = {.moment = &moment,
                                             .from_ns = q->from_ns,
                                             .device = device,
                                             .rows = CT_ROWS_BY_BLOCK,
                                             .phases = q->phases};
    struct ct_leaks l;
    ct_leaks_find(&l, q->sites, t, &request);
    g->judged_ns = l.to_ns > l.from_ns ? l.to_ns - l.from_ns : 0;
    g->shortest_ns = l.shortest_ns;
    g->is_short = g->judged_ns < l.shortest_ns;
    g->per_hour = ct_leaks_bytes_per_hour(&l);
    g->untold_bytes = l.untold_bytes;
    if (g->judged_ns)
        g->untold_per_hour = (uint64_t)((unsigned __int128)l.untold_bytes * HOUR / g->judged_ns);
    ct_leaks_free(&l);
}

static void read_incidents(struct ct_gate_figures *g, const struct ct_scan *s,
                           const struct ct_trace *t) {
    uint64_t ooms = 0;
    g->incidents = ct_incidents_count(&s->incidents);
    for (size_t i = s->incidents.count; i-- > 0;)
        if (!s->incidents.list[i].retried)
            g->first_failure_ns = ct_incidents_head(&s->incidents, i)->t_ns;
    for (int d = 0; d < CT_DEVICES && !s->request.from_ns; d++)
        ooms += ct_coarse_history_summarize(t, d).ooms;
    g->overwritten_ooms = ooms > s->incidents.oom_count ? ooms - s->incidents.oom_count : 0;
}

static void read_budget(struct ct_gate_figures *g, struct ct_trace *t,
                        const struct ct_gate_request *q) {
    struct ct_scan s;
    const struct ct_scan_request request = {.from_ns = q->from_ns,
                                            .to_ns = q->to_ns,
                                            .device = q->device,
                                            .capacity = q->capacity,
                                            .phases = q->phases};
    ct_question_scan(&s, t, &request, NULL);
    const struct ct_oom_event *over = ct_scan_find_crossing(&s);
    g->over_known = over != NULL;
    g->over_t_ns = over ? over->t_ns : 0;
    ct_scan_free(&s);
}

void ct_gate_figures_read(struct ct_gate_figures *g, struct ct_trace *t,
                          const struct ct_gate_request *q) {
    struct ct_scan s;
    const struct ct_scan_request request = {.from_ns = q->from_ns,
                                            .to_ns = q->to_ns,
                                            .device = q->device,
                                            .blocks = 1,
                                            .phases = q->phases};
    *g = (struct ct_gate_figures){.lost = 0};
    ct_question_scan(&s, t, &request, NULL);
    ct_replay_release(&s.end);
    const struct ct_oom_event *crossing = ct_scan_find_crossing(&s);
    g->lost = s.lost;
    read_incidents(g, &s, t);
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_gate_device *to = &g->device[d];
        if (q->device >= 0 && d != q->device)
            continue;
        read_device(to, &s, t, d, crossing);
        g->any_used |= to->is_used;
        g->any_pool |= to->is_used && to->pool.known;
        if (to->is_used && q->with_growth)
            read_growth(&to->growth, t, &s, d, q);
    }
    ct_scan_free(&s);
    if (q->capacity)
        read_budget(g, t, q);
}

// SPDX-License-Identifier: Apache-2.0
#include "compare/compared_run.h"

#include "question/question.h"

#define HOUR UINT64_C(3600000000000)

// ---- the moment ---------------------------------------------------------------------------------

void ct_compared_run_scan(struct ct_compared_run *r, int device, int is_usual,
                          enum ct_moment_kind kind, const struct ct_instant *at) {
    const struct ct_scan_request request = {.from_ns = r->from_ns,
                                            .to_ns = r->to_ns,
                                            .device = device,
                                            .blocks = 1,
                                            .phases = r->phases};
    ct_question_scan(&r->scan, r->trace, &request, NULL);
    ct_replay_release(&r->scan.end);
    const struct ct_oom_event *o = ct_scan_find_crossing(&r->scan);
    if (is_usual)
        kind =
            o && !o->recovered && ct_incidents_is_device_memory(o) ? CT_MOMENT_OOM : CT_MOMENT_PEAK;
    r->moment = ct_moment_find(&r->scan, r->trace, kind,
                               device >= 0 ? device : ct_scan_find_fullest(&r->scan), at);
}

void ct_compared_run_free(struct ct_compared_run *r) {
    ct_scan_free(&r->scan);
}

// ---- the state at the moment --------------------------------------------------------------------

static void begin_device(struct ct_compared_device *d, struct ct_compared_run *r, int device,
                         enum ct_holding_rows rows) {
    *d = (struct ct_compared_device){.exists = 1, .device = device, .moment = r->moment};
    const struct ct_device_scan *s = &r->scan.device[device];
    d->peak_known = s->peak_known;
    d->peak_bytes = s->peak_bytes;
    d->peak_t_ns = s->peak_t_ns;
    if (d->moment.kind == CT_MOMENT_PEAK) // each device has its own
        d->moment = ct_moment_find(&r->scan, r->trace, CT_MOMENT_PEAK, device, NULL);
    ct_question_moment(&d->replay, &d->moment, r->trace, NULL, NULL);
    ct_live_at_read(&d->now, &d->replay, device, rows);
}

static void end_device(struct ct_compared_device *d, struct ct_compared_run *r,
                       enum ct_holding_rows rows) {
    if (d->now.rows != rows) {
        ct_live_at_free(&d->now);
        ct_live_at_read(&d->now, &d->replay, d->device, rows);
    }
    const struct ct_breakdown *split =
        ct_incidents_find_split(&r->scan.incidents, d->moment.event, d->device);
    if (d->moment.kind == CT_MOMENT_OOM && split)
        d->now.split = *split;
    ct_account_make(&d->account, r->phases, &d->now);
    d->capacity = ct_capacity_find(r->trace, &d->replay, d->device);
    d->pool = ct_torch_pool_totals(&d->replay.pool, &d->replay.live, d->device);
    ct_replay_free(&d->replay);
    ct_site_groups_refine(r->sites, d->now.holdings, d->now.holding_count);
}

// What takes more passes, when the labels are set.
static void measure_device(struct ct_compared_device *d, struct ct_compared_run *r) {
    const struct ct_leaks_request request = {.moment = &d->moment,
                                             .from_ns = r->from_ns,
                                             .device = d->device,
                                             .rows = d->now.rows,
                                             .phases = r->phases,
                                             .labels_are_set = 1};
    const struct ct_phase_times_request phases = {
        .phases = r->phases, .from_ns = r->from_ns, .to_ns = d->moment.t_ns, .device = d->device};
    ct_leaks_find(&d->leaks, r->sites, r->trace, &request);
    ct_question_phases(&d->phases, r->trace, &phases);
}

void ct_compared_devices_read(struct ct_compared_device d[CT_SIDES],
                              struct ct_compared_run *r[CT_SIDES], const int device[CT_SIDES],
                              enum ct_holding_rows rows, struct ct_site_identity *identity) {
    for (int side = 0; side < CT_SIDES; side++) {
        d[side] = (struct ct_compared_device){.device = -1};
        if (device[side] < 0)
            continue;
        begin_device(&d[side], r[side], device[side], rows);
        if (d[side].now.rows == CT_ROWS_BY_SEGMENT)
            rows = CT_ROWS_BY_SEGMENT;
    }
    for (int side = 0; side < CT_SIDES; side++)
        if (d[side].exists)
            end_device(&d[side], r[side], rows);
    const struct ct_live_totals *totals[CT_SIDES] = {&d[0].now, &d[1].now};
    ct_site_identity_unify_depths(identity, totals);
    for (int side = 0; side < CT_SIDES; side++)
        if (d[side].exists)
            measure_device(&d[side], r[side]);
}

void ct_compared_device_free(struct ct_compared_device *d) {
    if (!d->exists)
        return;
    ct_live_at_free(&d->now);
    ct_leaks_free(&d->leaks);
    ct_phase_times_free(&d->phases);
}

// ---- call sites ---------------------------------------------------------------------------------

static int is_in(const struct ct_leak *list, size_t n, size_t group) {
    for (size_t i = 0; i < n; i++)
        if (list[i].group == group)
            return 1;
    return 0;
}

int ct_compared_device_rate(const struct ct_compared_device *d, size_t group, uint64_t *per_hour) {
    const struct ct_leaks *l = &d->leaks;
    *per_hour = 0;
    if (l->groups.list[group].kind == CT_HOLDING_IDLE)
        return 0;
    for (size_t i = 0; i < l->growing_count; i++)
        if (l->growing[i].group == group) {
            *per_hour = ct_growth_shape_in(&l->growing[i].shape, HOUR);
            return 1;
        }
    const int is_short = l->to_ns < l->from_ns || l->to_ns - l->from_ns < l->shortest_ns;
    return !is_short && !is_in(l->untold, l->untold_count, group);
}

uint64_t ct_compared_device_oldest(const struct ct_compared_device *d, size_t group) {
    return d->leaks.groups.list[group].growth.oldest_ns;
}

// SPDX-License-Identifier: Apache-2.0
// diff: two traces, or two moments of one, side by side. Devices are compared with those of the
// same ordinal; where each side has one, with that, because ranks see theirs under different
// numbers.
#include <string.h>

#include "answer/view_scan.h"
#include "print/trace_state.h"
#include "views/diff_shown.h"
#include "views/gate.h"
#include "views/views.h"

// ---- figures ------------------------------------------------------------------------------------

enum { PEAK, LIVE, TRACKED, UNTRACKED, FREE, POOL, POOL_FREE, SCATTERED, GROWTH, OOMS };

static const struct ct_diff_figure figures[CT_DIFF_FIGURES] = {
    [PEAK] = {.name = "peak", .title = "peak: most allocated at once"},
    [LIVE] = {.name = "live", .title = "live at the moment"},
    [TRACKED] = {.name = "tracked", .title = "tracked, without managed memory"},
    [UNTRACKED] = {.name = "untracked", .title = "untracked, of this process"},
    [FREE] = {.name = "free", .title = "free on the device"},
    [POOL] = {.name = "pool", .title = "reserved in PyTorch's segments"},
    [POOL_FREE] = {.name = "pool-free", .title = "free in these segments"},
    [SCATTERED] = {.name = "scattered", .title = "free outside the largest free block"},
    [GROWTH] = {.name = "growth", .title = "growth an hour"},
    [OOMS] = {.name = "ooms", .title = "requests that ran out of memory", .is_count = 1},
};

static uint64_t untracked_of(const struct ct_account *a) {
    uint64_t sum = 0;
    for (unsigned i = CT_ACCOUNT_GRAPHS; i <= CT_ACCOUNT_UNMEASURED; i++)
        sum += a->row[i].bytes;
    return sum;
}

static void set(struct ct_diff_figure *f, int side, int known, uint64_t value) {
    f->known[side] = known;
    f->value[side] = known ? value : 0;
}

static void read_figures(struct ct_diff_figure *f, int side, const struct ct_compared_device *d,
                         const struct ct_compared_run *r) {
    const struct ct_torch_pool_totals *p = &d->pool;
    const struct ct_account *a = &d->account;
    if (!d->exists)
        return;
    set(&f[PEAK], side, d->peak_known, d->peak_bytes);
    set(&f[LIVE], side, 1, d->now.bytes);
    set(&f[TRACKED], side, 1, a->tracked);
    // (without a report of NVML's, what is unmeasured includes other processes)
    set(&f[UNTRACKED], side, a->known && a->split_known, untracked_of(a));
    set(&f[FREE], side, a->known, a->row[CT_ACCOUNT_FREE].bytes);
    set(&f[POOL], side, p->known, p->segment_bytes);
    set(&f[POOL_FREE], side, p->known, p->free.bytes);
    set(&f[SCATTERED], side, p->known, p->free.bytes - p->free.largest);
    set(&f[GROWTH], side, !ct_leaks_is_too_short(&d->leaks), ct_leaks_bytes_per_hour(&d->leaks));
    set(&f[OOMS], side, 1, ct_incidents_count_failed(&r->scan.incidents, d->device));
}

static void find_figures(struct ct_diff_device *d, const struct ct_diff *of) {
    struct ct_diff_figure f[CT_DIFF_FIGURES];
    memcpy(f, figures, sizeof f);
    for (int side = 0; side < CT_SIDES; side++)
        read_figures(f, side, &d->side[side], &of->run[side]);
    for (int i = 0; i < CT_DIFF_FIGURES; i++) {
        // (the requests are counted in the whole range, whatever the moment)
        const int is_asked = i != OOMS || of->v[0]->trace != of->v[1]->trace;
        if (is_asked && (f[i].known[0] || f[i].known[1]))
            d->figure[d->figure_count++] = f[i];
    }
}

// ---- the two sides ------------------------------------------------------------------------------

static void warn_moment(const struct ct_view *v, const struct ct_compared_run *r) {
    const enum ct_moment_kind wanted = ct_view_scan_wanted_moment(v->options, CT_MOMENT_PEAK);
    char text[400];
    if (v->options->at.kind == CT_TIME_NONE || v->options->at_end || r->moment.kind == wanted)
        return;
    (void)snprintf(text, sizeof text,
                   "warning: --at: %.200s has no such moment; diff compares its %s",
                   v->trace->source.name, ct_moment_kind_name(r->moment.kind));
    ct_terminal_warn(text);
}

static void scan_side(struct ct_diff *d, int side) {
    struct ct_view *v = d->v[side];
    struct ct_compared_run *r = &d->run[side];
    const struct ct_arguments *o = v->options;
    *r = (struct ct_compared_run){.trace = v->trace,
                                  .sites = v->sites,
                                  .phases = v->phases,
                                  .from_ns = v->from_ns,
                                  .to_ns = v->to_ns};
    ct_compared_run_scan(r, o->device, d->is_usual, ct_view_scan_wanted_moment(o, CT_MOMENT_PEAK),
                         &v->at);
    warn_moment(v, r);
}

static int has_device(const struct ct_diff *d, int side, int device) {
    const struct ct_device_scan *s = &d->run[side].scan.device[device];
    return s->seen && s->peak_known;
}

static void add_device(struct ct_diff *d, int a, int b) {
    struct ct_compared_run *r[CT_SIDES] = {&d->run[0], &d->run[1]};
    const int device[CT_SIDES] = {a, b};
    struct ct_diff_device *to = &d->devices[d->device_count++];
    *to = (struct ct_diff_device){.figure_count = 0};
    ct_compared_devices_read(to->side, r, device,
                             d->v[1]->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK,
                             &d->identity);
    const struct ct_site_groups *groups[CT_SIDES] = {&to->side[0].leaks.groups,
                                                     &to->side[1].leaks.groups};
    struct ct_phases *phases[CT_SIDES] = {d->v[0]->phases, d->v[1]->phases};
    ct_site_match_build(&to->sites, &d->identity, groups);
    struct ct_call_sites *sites[CT_SIDES] = {d->v[0]->sites, d->v[1]->sites};
    ct_phase_match_build(&to->phases, to->side, phases, sites);
    if (a >= 0 && b >= 0)
        ct_fact_differences_find_device(&to->facts, &d->v[0]->trace->definitions, a,
                                        &d->v[1]->trace->definitions, b);
    find_figures(to, d);
}

static void add_devices(struct ct_diff *d) {
    int only[CT_SIDES] = {-1, -1}, count[CT_SIDES] = {0, 0};
    for (int device = 0; device < CT_DEVICES; device++)
        for (int side = 0; side < CT_SIDES; side++)
            if (has_device(d, side, device)) {
                only[side] = device;
                count[side]++;
            }
    d->devices = ct_heap_alloc_zeroed(CT_DEVICES, sizeof *d->devices);
    if (count[0] == 1 && count[1] == 1) {
        add_device(d, only[0], only[1]);
        return;
    }
    for (int device = 0; device < CT_DEVICES; device++)
        if (has_device(d, 0, device) || has_device(d, 1, device))
            add_device(d, has_device(d, 0, device) ? device : -1,
                       has_device(d, 1, device) ? device : -1);
}

static void compare(struct ct_diff *d) {
    const struct ct_definitions *a = &d->v[0]->trace->definitions,
                                *b = &d->v[1]->trace->definitions;
    d->is_same_trace = d->v[0]->trace->index.trace_id == d->v[1]->trace->index.trace_id;
    d->is_unknown =
        ct_trace_state_is_unknown(d->v[0]->trace) || ct_trace_state_is_unknown(d->v[1]->trace);
    ct_fact_differences_find(&d->facts, a, b);
    if (d->is_unknown)
        return;
    scan_side(d, 0);
    scan_side(d, 1);
    ct_site_identity_init(&d->identity, d->v[0]->sites, d->v[1]->sites);
    add_devices(d);
}

static void free_diff(struct ct_diff *d) {
    for (size_t i = 0; i < d->device_count; i++) {
        ct_compared_device_free(&d->devices[i].side[0]);
        ct_compared_device_free(&d->devices[i].side[1]);
        ct_site_match_free(&d->devices[i].sites);
        ct_phase_match_free(&d->devices[i].phases);
        ct_fact_differences_free(&d->devices[i].facts);
    }
    free(d->devices);
    ct_fact_differences_free(&d->facts);
    if (d->is_unknown)
        return;
    ct_site_identity_free(&d->identity);
    ct_compared_run_free(&d->run[0]);
    ct_compared_run_free(&d->run[1]);
}

int ct_view_diff(struct ct_view *v) {
    struct ct_diff d = {.v = {v->before, v}, .is_usual = !v->options->at_count};
    compare(&d);
    if (v->options->json)
        ct_diff_print_json(&d);
    else
        ct_diff_print_text(&d);
    free_diff(&d);
    return CT_EXIT_OK;
}

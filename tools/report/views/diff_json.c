// SPDX-License-Identifier: Apache-2.0
// The JSON of a diff; JSON.md documents each key.
#include "print/document.h"
#include "views/diff_shown.h"

static void add_side(struct ct_json *j, const struct ct_diff *d, int side) {
    const struct ct_view *v = d->v[side];
    const struct ct_scan nothing = {.events = 0};
    ct_json_open(j, side ? "b" : "a", '{');
    ct_json_text(j, "file", v->trace->source.name);
    ct_document_add_process(j, v);
    ct_document_add_start(j, v->trace);
    ct_document_add_trace(j, v, d->is_unknown ? &nothing : &d->run[side].scan);
    ct_json_close(j, '}');
}

static void add_fact(struct ct_json *j, const struct ct_fact_difference *f) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "kind", ct_fact_kind_name(f->kind));
    ct_json_bytes(j, "name", f->name.at, f->name.length);
    for (int side = 0; side < CT_SIDES; side++) {
        const char *key = side ? "b" : "a";
        if (f->value[side])
            ct_json_bytes(j, key, f->value[side]->at, f->value[side]->length);
        else
            ct_json_null(j, key);
    }
    ct_json_close(j, '}');
}

static void add_facts(struct ct_json *j, const struct ct_fact_differences *f) {
    ct_json_open(j, "facts", '[');
    for (size_t i = 0; i < f->count; i++)
        add_fact(j, &f->list[i]);
    ct_json_close(j, ']');
}

static void add_files(struct ct_json *j, const struct ct_diff *d) {
    ct_json_open(j, "files", '[');
    for (size_t i = 0; i < d->identity.moved_count; i++) {
        ct_json_open(j, NULL, '{');
        for (int side = 0; side < CT_SIDES; side++)
            ct_document_add_string(
                j, side ? "b" : "a",
                &d->v[side]->trace->definitions.strings[d->identity.moved[i].file[side]]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// ---- a device -----------------------------------------------------------------------------------

static void add_device_side(struct ct_json *j, const char *key, const struct ct_trace *t,
                            const struct ct_compared_device *d) {
    if (!ct_json_open_or_null(j, key, d->exists, '{'))
        return;
    ct_document_add_device(j, "ordinal", d->device);
    ct_document_add_moment(j, t, &d->moment);
    ct_json_number(j, "bytes", d->now.bytes);
    ct_json_text(j, "rows", d->now.rows == CT_ROWS_BY_BLOCK ? "blocks" : "segments");
    ct_json_number_or_null(j, "peak_t_ns", d->peak_known, d->peak_t_ns);
    ct_json_number_or_null(j, "capacity_bytes", d->account.known, d->account.capacity);
    ct_json_number(j, "tracked_bytes", d->account.tracked);
    ct_json_number(j, "judged_from_t_ns", d->leaks.from_ns);
    ct_json_bool(j, "too_short", ct_leaks_is_too_short(&d->leaks));
    ct_json_close(j, '}');
}

static void add_change(struct ct_json *j, const char *key, int known,
                       const uint64_t value[CT_SIDES]) {
    ct_json_signed_or_null(j, key, known, ct_diff_change(value));
}

static void add_figures(struct ct_json *j, const struct ct_diff_device *d) {
    ct_json_open(j, "figures", '[');
    for (size_t i = 0; i < d->figure_count; i++) {
        const struct ct_diff_figure *f = &d->figure[i];
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "figure", f->name);
        ct_json_number_or_null(j, "a", f->known[0], f->value[0]);
        ct_json_number_or_null(j, "b", f->known[1], f->value[1]);
        add_change(j, "change", f->known[0] && f->known[1], f->value);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_account(struct ct_json *j, const struct ct_diff_device *d) {
    const struct ct_account *of[CT_SIDES] = {&d->side[0].account, &d->side[1].account};
    ct_json_open(j, "account", '[');
    for (unsigned i = 0; i < CT_ACCOUNT_ROWS; i++) {
        const uint64_t bytes[CT_SIDES] = {of[0]->row[i].bytes, of[1]->row[i].bytes};
        if (!bytes[0] && !bytes[1])
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "component", ct_account_row_name((enum ct_account_row_kind)i));
        const int known[CT_SIDES] = {ct_diff_knows_row(d, 0, i), ct_diff_knows_row(d, 1, i)};
        ct_json_number_or_null(j, "a_bytes", known[0], bytes[0]);
        ct_json_number_or_null(j, "b_bytes", known[1], bytes[1]);
        add_change(j, "change_bytes", known[0] && known[1], bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_site_side(struct ct_json *j, const struct ct_diff *of,
                          const struct ct_diff_device *d, const struct ct_site_row *r, int side) {
    const struct ct_compared_device *s = &d->side[side];
    uint64_t rate;
    const char *key = side ? "b" : "a";
    if (!ct_json_open_or_null(j, key, r->sites[side] != 0, '{'))
        return;
    const struct ct_site_group *g = &s->leaks.groups.list[r->site[side]];
    const uint64_t oldest = ct_diff_row_oldest(d, r, side);
    ct_json_text(j, "site", g->label);
    ct_json_number(j, "sites", r->sites[side]);
    ct_json_number(j, "bytes", r->bytes[side]);
    ct_json_number(j, "count", r->count[side]);
    const int known = ct_diff_row_rate(d, r, side, &rate);
    ct_json_number_or_null(j, "bytes_per_hour", known, rate);
    ct_json_number_or_null(j, "oldest_t_ns", oldest != 0, oldest);
    ct_json_number_or_null(j, "age_ns", oldest && oldest <= s->moment.t_ns,
                           s->moment.t_ns - oldest);
    ct_call_sites_json_stack(j, of->v[side]->sites, "stack", g->stack);
    ct_json_close(j, '}');
}

static void add_sites(struct ct_json *j, const struct ct_diff *of, const struct ct_diff_device *d) {
    const unsigned top = of->v[1]->options->top;
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < d->sites.count && (!top || i < top); i++) {
        const struct ct_site_row *r = &d->sites.list[i];
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", ct_holding_kind_name(r->kind));
        ct_json_text(j, "state",
                     r->sites[0] && r->sites[1] ? "both"
                     : r->sites[1]              ? "new"
                                                : "gone");
        ct_json_bool(j, "merged", ct_site_row_is_merged(r));
        ct_json_bool(j, "moved", ct_site_row_has_moved(r));
        ct_json_signed(j, "change_bytes", ct_diff_change(r->bytes));
        ct_json_signed(j, "change_count", ct_diff_change(r->count));
        add_site_side(j, of, d, r, 0);
        add_site_side(j, of, d, r, 1);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_phase_side(struct ct_json *j, const char *key, const struct ct_phase_share *s,
                           uint64_t now) {
    const uint64_t oldest = ct_diff_phase_oldest(s);
    uint64_t rate;
    ct_json_open(j, key, '{');
    ct_json_number_or_null(j, "bytes", ct_diff_knows_phase(s), s->bytes);
    ct_json_number_or_null(j, "count", ct_diff_knows_phase(s), s->count);
    const int is_rate_known = ct_diff_phase_rate(s, &rate);
    ct_json_number_or_null(j, "bytes_per_hour", is_rate_known, rate);
    ct_json_number_or_null(j, "oldest_t_ns", oldest != 0, oldest);
    ct_json_number_or_null(j, "age_ns", oldest && oldest <= now, now - oldest);
    ct_json_number(j, "stretches", s->stretches);
    ct_json_number(j, "duration_ns", s->duration_ns);
    ct_json_number(j, "taken_bytes", s->taken_bytes);
    ct_json_number(j, "taken_count", s->taken_count);
    ct_json_number(j, "kept_bytes", s->kept_bytes);
    ct_json_number(j, "given_back_bytes", s->given_back_bytes);
    ct_json_number(j, "given_back_count", s->given_back_count);
    ct_json_number(j, "peak_tracked_bytes", s->peak_bytes);
    ct_json_close(j, '}');
}

static void add_phase_state(struct ct_json *j, enum ct_phase_state state) {
    static const char *const names[] = {"both", "new", "gone", NULL}; // by enum ct_phase_state
    ct_json_text_or_null(j, "state", names[state]);
}

static void add_phases(struct ct_json *j, const struct ct_diff_device *d) {
    ct_json_open(j, "phases", '[');
    for (size_t i = 0; i < d->phases.count; i++) {
        const struct ct_phase_row *r = &d->phases.list[i];
        const uint64_t bytes[CT_SIDES] = {r->side[0].bytes, r->side[1].bytes};
        ct_json_open(j, NULL, '{');
        ct_account_json_add_phase(j, &r->at);
        ct_json_bool(j, "idle", r->is_idle);
        add_phase_state(j, ct_phase_match_state(&d->phases, r));
        add_change(j, "change_bytes",
                   ct_diff_knows_phase(&r->side[0]) && ct_diff_knows_phase(&r->side[1]), bytes);
        add_phase_side(j, "a", &r->side[0], d->side[0].moment.t_ns);
        add_phase_side(j, "b", &r->side[1], d->side[1].moment.t_ns);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_device(struct ct_json *j, const struct ct_diff *of,
                       const struct ct_diff_device *d) {
    ct_json_open(j, NULL, '{');
    ct_json_bool(j, "equal", ct_diff_is_equal(d));
    add_device_side(j, "a", of->v[0]->trace, &d->side[0]);
    add_device_side(j, "b", of->v[1]->trace, &d->side[1]);
    add_facts(j, &d->facts);
    add_figures(j, d);
    add_account(j, d);
    add_sites(j, of, d);
    add_phases(j, d);
    ct_json_close(j, '}');
}

void ct_diff_print_json(const struct ct_diff *d) {
    struct ct_json json = {.out = d->v[1]->out}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.diff/2");
    ct_json_bool(j, "same_trace", d->is_same_trace);
    add_side(j, d, 0);
    add_side(j, d, 1);
    add_facts(j, &d->facts);
    if (d->is_unknown) {
        ct_json_null(j, "files");
        ct_json_null(j, "devices");
    } else {
        add_files(j, d);
        ct_json_open(j, "devices", '[');
        for (size_t i = 0; i < d->device_count; i++)
            add_device(j, d, &d->devices[i]);
        ct_json_close(j, ']');
    }
    ct_document_end(j);
}

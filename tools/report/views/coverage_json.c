// SPDX-License-Identifier: Apache-2.0
#include "views/coverage_json.h"

#include "print/document.h"

static void add_text(struct ct_json *j, const char *key, struct ct_string s) {
    if (s.length)
        ct_json_bytes(j, key, s.at, s.length);
    else
        ct_json_null(j, key);
}

static void add_ways(struct ct_json *j, const struct ct_coverage *c) {
    ct_json_number(j, "hook_calls", c->calls);
    ct_json_number(j, "hooked_functions_called", c->functions);
    ct_document_add_string(j, "cupti_state", c->cupti);
    ct_json_number(j, "nvtx_modules", c->nvtx_modules);
    ct_document_add_string(j, "torch_version", c->torch);
    if (!c->is_audited) {
        ct_json_null(j, "audit");
        return;
    }
    ct_json_open(j, "audit", '{');
    ct_json_number(j, "both", c->audit_both);
    ct_json_number(j, "only_cupti", c->audit_only_cupti);
    ct_json_number(j, "only_hooks", c->audit_only_preload);
    ct_json_close(j, '}');
}

static void add_look_ups(struct ct_json *j, const struct ct_coverage *c) {
    if (!c->is_recorded)
        ct_json_null(j, "look_ups");
    else
        ct_json_open(j, "look_ups", '[');
    for (int way = 0; c->is_recorded && way < CT_COVERAGE_WAYS; way++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "way", ct_coverage_way_name((enum ct_coverage_way)way));
        ct_json_number(j, "seen", c->look_ups[way].seen);
        ct_json_number(j, "wrapped", c->look_ups[way].wrapped);
        ct_json_close(j, '}');
    }
    if (c->is_recorded)
        ct_json_close(j, ']');
    ct_json_open(j, "passed", '[');
    for (size_t i = 0; i < c->passed_count; i++) {
        const struct ct_coverage_passed *p = &c->passed[i];
        ct_json_open(j, NULL, '{');
        ct_json_bytes(j, "name", p->name.at, p->name.length);
        ct_json_signed(j, "version", p->version);
        ct_json_number(j, "count", p->count);
        ct_json_bool(j, "is_hooked", p->is_hooked);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_number(j, "names_dropped", c->names_dropped);
}

// null: an interposer comes first, and may call on.
static void add_seen(struct ct_json *j, const struct ct_coverage *c,
                     const struct ct_coverage_module *m) {
    if (m->kind == CT_COVERAGE_RUNTIME || c->cupti_hears || ct_coverage_is_past_hooks(m))
        ct_json_bool(j, "seen", m->kind == CT_COVERAGE_RUNTIME || c->cupti_hears);
    else
        ct_json_null(j, "seen");
}

static void add_modules(struct ct_json *j, const struct ct_coverage *c) {
    const int known = c->modules_known;
    ct_json_number_or_null(j, "looks", c->is_recorded, c->looks);
    ct_json_number_or_null(j, "modules_seen", known, c->modules);
    ct_json_number_or_null(j, "modules_unreadable", known, c->modules_unreadable);
    ct_json_number_or_null(j, "drivers", known, c->drivers);
    ct_json_open(j, "modules", '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct ct_coverage_module *m = &c->list[i];
        ct_json_open(j, NULL, '{');
        ct_json_bytes(j, "module", m->name.at, m->name.length);
        ct_json_text(j, "kind", ct_coverage_kind_name(m->kind));
        add_text(j, "to", m->to);
        add_seen(j, c, m);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_children(struct ct_json *j, const struct ct_coverage *c) {
    if (!c->children_known) {
        ct_json_null(j, "children");
        return;
    }
    ct_json_open(j, "children", '{');
    ct_json_number(j, "seen", c->children);
    ct_json_number(j, "untraced", c->children_untraced);
    ct_json_number(j, "unreadable", c->children_unreadable);
    add_text(j, "untraced_names", c->children_names);
    ct_json_close(j, '}');
}

static void add_share(struct ct_json *j, const struct ct_untracked_share_device *d, int device) {
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_json_open(j, "readings", '[');
    for (unsigned i = 0; i < CT_UNTRACKED_SHARE_PARTS; i++) {
        const struct ct_breakdown *b = &d->part[i].at;
        if (!d->part[i].known)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", b->reading_t_ns);
        ct_json_number(j, "used_bytes", b->used);
        ct_json_number(j, "tracked_bytes", b->tracked);
        ct_json_number_or_null(j, "untracked_bytes", b->split_known, b->untracked);
        ct_json_number_or_null(j, "other_processes_bytes", b->split_known, b->others);
        ct_json_number(j, "untracked_or_others_bytes", b->unexplained);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

void ct_coverage_add_json(struct ct_json *j, const char *limits, const struct ct_coverage *c,
                          const struct ct_untracked_share *share) {
    ct_json_open(j, "coverage", '{');
    ct_json_text(j, "limits", limits);
    ct_json_bool(j, "recorded", c->is_recorded);
    add_ways(j, c);
    add_look_ups(j, c);
    add_modules(j, c);
    add_children(j, c);
    ct_json_number(j, "switched_off", c->switched_off);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (share->device[d].seen)
            add_share(j, &share->device[d], d);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

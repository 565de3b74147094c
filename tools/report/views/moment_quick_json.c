// SPDX-License-Identifier: Apache-2.0
#include "views/moment_quick_json.h"

#include "print/document.h"
#include "sites/held_at.h"
#include "views/frag.h"
#include "views/frag_pool.h"
#include "views/top_tree.h"

static void add_begin(struct ct_json *j, const struct ct_moment_part *p, const struct ct_trace *t) {
    const struct ct_trace_part *part = &p->part;
    const int known = !part->unknown;
    ct_json_bool(j, "known", known);
    if (known)
        ct_json_null(j, "unknown");
    else
        ct_json_text(j, "unknown", part->unknown);
    ct_json_number_or_null(j, "checkpoint_event", known && part->point.event, part->point.event);
    ct_json_number_or_null(j, "replayed_events", known, p->replayed);
    ct_json_number(j, "events", t->events);
    ct_json_number_or_null(j, "lost_events", known, part->lost);
    ct_json_number_or_null(j, "failed_frees", known, part->failed_frees);
    ct_json_number_or_null(j, "unread_amends", known, part->unread_amends);
}

static void add_site(struct ct_view *v, struct ct_json *j, const struct ct_site_group *g) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "kind", ct_holding_kind_name(g->kind));
    ct_json_text(j, "site", g->label);
    ct_json_number(j, "bytes", g->bytes);
    ct_json_number(j, "count", g->count);
    ct_json_number(j, "stacks", g->stacks);
    ct_call_sites_json_stack(j, v->sites, "stack", g->stack);
    ct_json_close(j, '}');
}

static void add_top_device(const struct ct_moment_part *p, struct ct_view *v, struct ct_json *j,
                           int device) {
    struct ct_live_totals live;
    struct ct_site_groups groups;
    ct_held_at_read(&live, &groups, &p->state, v->sites, device,
                    v->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK);
    ct_json_number(j, "bytes", live.bytes);
    ct_json_number(j, "asleep_bytes", live.asleep_bytes);
    ct_json_text(j, "rows", live.rows == CT_ROWS_BY_BLOCK ? "blocks" : "segments");
    if (v->options->tree) {
        ct_json_null(j, "sites");
        ct_top_tree_add(v, j, &live);
    } else {
        ct_json_open(j, "sites", '[');
        for (size_t i = 0; i < groups.count && (!v->options->top || i < v->options->top); i++)
            add_site(v, j, &groups.list[i]);
        ct_json_close(j, ']');
        ct_json_null(j, "tree");
    }
    ct_site_groups_free(&groups);
    ct_live_at_free(&live);
}

static void add_frag_device(const struct ct_moment_part *p, struct ct_view *v, struct ct_json *j,
                            int device) {
    const uint64_t capacity = ct_capacity_find(v->trace, &p->state, device).bytes;
    const struct ct_address_layout layout = ct_address_layout_measure(&p->state, device, capacity);
    struct ct_live_totals live;
    ct_live_at_read(&live, &p->state, device, CT_ROWS_BY_SEGMENT);
    ct_json_number(j, "live_bytes", live.bytes);
    ct_json_number(j, "live_allocations", live.count);
    ct_json_open(j, "address_layout", '{');
    ct_frag_add_layout(j, &layout);
    ct_json_close(j, '}');
    ct_frag_pool_add_state(v, j, &p->state, device);
    ct_live_at_free(&live);
}

static void add_device(const struct ct_moment_part *p, struct ct_view *v, struct ct_json *j,
                       int device) {
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    if (v->options->command == CT_COMMAND_frag)
        add_frag_device(p, v, j, device);
    else
        add_top_device(p, v, j, device);
    ct_json_close(j, '}');
}

void ct_moment_quick_print_json(struct ct_moment_part *p, struct ct_view *v) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_moment_known(j, &p->moment, !p->part.unknown);
    add_begin(j, p, v->trace);
    if (p->part.unknown) {
        ct_json_null(j, "devices");
    } else {
        ct_json_open(j, "devices", '[');
        for (int d = 0; d < CT_DEVICES; d++)
            if (ct_moment_part_has(p, d) && (v->options->device < 0 || v->options->device == d))
                add_device(p, v, j, d);
        ct_json_close(j, ']');
    }
    ct_document_end(j);
}

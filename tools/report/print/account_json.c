// SPDX-License-Identifier: Apache-2.0
#include "print/account_json.h"

void ct_account_json_add_phase(struct ct_json *j, const char *key, const struct ct_phase_at *at) {
    const struct ct_phase_title title = ct_phases_title(at);
    if (!ct_json_open_or_null(j, key, at->phase != CT_PHASE_UNKNOWN, '{'))
        return;
    ct_json_text(j, "key", ct_phase_name(at->phase));
    ct_json_text(j, "framework", ct_framework_name(at->framework));
    ct_json_text(j, "title", title.text);
    ct_json_bool(j, "inferred", at->inferred);
    ct_json_bytes_or_null(j, "range", at->range.at, at->range.length);
    ct_json_close(j, '}');
}

void ct_account_json_add_component(struct ct_json *j, const char *key, struct ct_phases *phases,
                                   uint32_t stack) {
    const enum ct_component c =
        phases ? ct_phases_find_component(phases, stack) : CT_COMPONENT_OTHER;
    ct_json_text_or_null(j, key, c == CT_COMPONENT_OTHER ? NULL : ct_component_name(c));
}

static void add_row(struct ct_json *j, const struct ct_account *a, enum ct_account_row_kind kind) {
    const struct ct_account_row *row = &a->row[kind];
    const int counts = kind < CT_ACCOUNT_MEMPOOL_IDLE; // the others are not made of blocks
    if (!row->bytes && !row->count)
        return;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "component", ct_account_row_name(kind));
    ct_json_number(j, "bytes", row->bytes);
    ct_json_number_or_null(j, "count", counts, row->count);
    ct_json_bool(j, "inferred", row->inferred);
    ct_json_close(j, '}');
}

void ct_account_json_add(struct ct_json *j, const char *key, const struct ct_account *a) {
    if (!ct_json_open_or_null(j, key, a != NULL, '{'))
        return;
    ct_json_number_or_null(j, "capacity_bytes", a->known, a->capacity);
    ct_json_number(j, "tracked_bytes", a->tracked);
    ct_json_number(j, "managed_bytes", a->managed);
    ct_json_open(j, "rows", '[');
    for (unsigned kind = 0; kind < CT_ACCOUNT_ROWS; kind++)
        add_row(j, a, (enum ct_account_row_kind)kind);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

void ct_account_json_add_moments(struct ct_json *j, const struct ct_account *crossing,
                                 const struct ct_account *peak, const struct ct_account *end) {
    ct_json_open(j, "account", '{');
    ct_account_json_add(j, "crossing", crossing);
    ct_account_json_add(j, "peak", peak);
    ct_account_json_add(j, "end", end);
    ct_json_close(j, '}');
}

// SPDX-License-Identifier: Apache-2.0
// The call site stays that of the first owner; the resumer follows it.
#include "print/resumed.h"

#include "print/label.h"

enum { LABEL = 400 };

void ct_resumed_label(struct ct_view *v, const struct ct_site_group *g, char *to, size_t size) {
    char by[LABEL] = "unknown code";
    if (!g->resumed_bytes) {
        (void)snprintf(to, size, "%s", g->label);
        return;
    }
    if (g->resumed_by)
        ct_call_sites_label(v->sites, g->resumed_by, by, sizeof by);
    if (g->resumed_bytes == g->bytes)
        (void)snprintf(to, size, "%s, resumed by %s", g->label, by);
    else
        (void)snprintf(to, size, "%s, %s of it resumed by %s", g->label,
                       ct_label_size(v, g->resumed_bytes).text, by);
}

void ct_resumed_add_json(struct ct_json *j, struct ct_view *v, uint64_t bytes, uint32_t by) {
    char label[LABEL];
    ct_json_number(j, "resumed_bytes", bytes);
    if (bytes && by) {
        ct_call_sites_label(v->sites, by, label, sizeof label);
        ct_json_text(j, "resumed_by", label);
        ct_call_sites_json_stack(j, v->sites, "resumed_stack", by);
    } else {
        ct_json_null(j, "resumed_by");
        ct_json_null(j, "resumed_stack");
    }
}

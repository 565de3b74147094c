// SPDX-License-Identifier: Apache-2.0
// One table names the parts, for text and JSON.
#include "print/untracked.h"

#include <string.h>

#include "base/human.h"

// ---- parts --------------------------------------------------------------------------------------

static const struct {
    const char *text, *key;
} parts[CT_MEASURED_PARTS] = {
    [CT_MEASURED_CONTEXTS] = {"contexts: measured when they were created", "context_bytes"},
    [CT_MEASURED_MODULES] = {"modules: measured when they were loaded", "module_bytes"},
    [CT_MEASURED_LIMITS] = {"limits (stack, heap): measured when they were set", "limit_bytes"},
    [CT_MEASURED_GRAPHS] = {"graph executables", "graph_bytes"},
};

// Less than this part of the device has no rows of its own.
#define SMALL_PART 50u

static int has_parts(const struct ct_breakdown *s) {
    int exceeds;
    (void)ct_breakdown_unmeasured(s, &exceeds);
    if (exceeds || ct_breakdown_measured_whole(s) < s->total / SMALL_PART)
        return 0;
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++)
        if (s->measured[part])
            return 1;
    return 0;
}

const char *ct_untracked_title(const struct ct_breakdown *s) {
    int exceeds;
    (void)ct_breakdown_unmeasured(s, &exceeds);
    if (s->with_host)
        return "shared with the host: its programs and page cache, other processes, and contexts, "
               "modules";
    if (exceeds && !(s->split_known && s->unattributed)) // (else it may be part of that)
        return s->split_known
                   ? "untracked: contexts, modules, graphs, rounding (more was measured, and part "
                     "of it given back)"
                   : "untracked or of other processes: contexts, modules, graphs, rounding (more "
                     "was measured, and part of it given back)";
    return s->split_known ? "untracked: contexts, modules, graphs, rounding"
                          : "untracked or of other processes: contexts, modules, graphs, rounding";
}

static void describe_graphs(const struct ct_breakdown *s, char *note) {
    const uint64_t all = s->instantiations + s->unmeasured_instantiations;
    if (s->unmeasured_instantiations)
        (void)snprintf(note, CT_UNTRACKED_NOTE,
                       "graph executables (%s of %s instantiations measured)",
                       ct_human_count(s->instantiations).text, ct_human_count(all).text);
    else
        (void)snprintf(note, CT_UNTRACKED_NOTE, "graph executables (%s measured)",
                       ct_human_counted(all, "instantiation").text);
}

struct ct_untracked_rows ct_untracked_list(const struct ct_breakdown *s) {
    struct ct_untracked_rows r = {.count = 0};
    int exceeds;
    if (!has_parts(s))
        return r;
    for (unsigned part = CT_MEASURED_PARTS; part-- > 0;) {
        if (!s->measured[part])
            continue;
        (void)snprintf(r.note[r.count], CT_UNTRACKED_NOTE, "%s", parts[part].text);
        if (part == CT_MEASURED_GRAPHS)
            describe_graphs(s, r.note[r.count]);
        r.bytes[r.count++] = s->measured[part];
    }
    (void)snprintf(r.note[r.count], CT_UNTRACKED_NOTE, "the rest, of no measured call");
    r.bytes[r.count++] = ct_breakdown_unmeasured(s, &exceeds);
    return r;
}

void ct_untracked_add_parts(struct ct_json *j, const struct ct_breakdown *s) {
    int exceeds;
    if (!ct_json_open_or_null(j, "untracked_parts", s->used_known, '{'))
        return;
    const uint64_t unmeasured = ct_breakdown_unmeasured(s, &exceeds);
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++)
        ct_json_number_or_null(j, parts[part].key, !exceeds, s->measured[part]);
    ct_json_number(j, "unmeasured_bytes", unmeasured);
    ct_json_number(j, "graphs_measured", s->instantiations);
    ct_json_number(j, "graphs_not_measured", s->unmeasured_instantiations);
    ct_json_close(j, '}');
}

void ct_untracked_add_costs(struct ct_json *j, const struct ct_measured *m) {
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++)
        ct_json_number_or_null(j, parts[part].key, m->known[part], m->bytes[part]);
}

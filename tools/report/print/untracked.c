// SPDX-License-Identifier: Apache-2.0
// One table names the parts, for text and JSON.
#include "print/untracked.h"

#include <string.h>

#include "base/human.h"
#include "diagnose/verdicts.h"
#include "print/label.h"

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

// ---- growth -------------------------------------------------------------------------------------

#define HOUR UINT64_C(3600000000000)

static const char *const part_names[CT_MEASURED_PARTS] = {
    [CT_MEASURED_CONTEXTS] = "contexts",
    [CT_MEASURED_MODULES] = "modules",
    [CT_MEASURED_LIMITS] = "limits",
    [CT_MEASURED_GRAPHS] = "graph executables",
};

void ct_growth_print_bounded(struct ct_view *v, const struct ct_growth_shape *s, const char *like) {
    if (s->is_slowing)
        fprintf(v->out, " grows more and more slowly since %s%s\n",
                ct_label_time(v, s->since_ns).text, like);
    else
        fprintf(v->out, " stopped growing at %s; it grew since %s\n",
                ct_label_time(v, s->filled_ns).text, ct_label_time(v, s->since_ns).text);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_subject(struct ct_view *v, const struct ct_untracked_growth *g) {
    fputs(g->is_own ? "untracked memory of this process"
                    : "untracked memory, of this process or of others,",
          v->out);
}

// Prints "; of this 1.20 GiB graph executables, 300.00 MiB of no measured call".
static void print_parts(struct ct_view *v, const struct ct_untracked_growth *g) {
    uint64_t left = g->shape.kept_bytes;
    const char *before = "; of this ";
    for (unsigned i = 0; i < CT_MEASURED_PARTS && g->measured_known; i++) {
        if (!g->measured[i])
            continue;
        fprintf(v->out, "%s%s %s", before, ct_label_size(v, g->measured[i]).text, part_names[i]);
        left -= g->measured[i];
        before = ", ";
    }
    if (left && left < g->shape.kept_bytes)
        fprintf(v->out, ", %s of no measured call", ct_label_size(v, left).text);
}

static void print_growing(struct ct_view *v, const struct ct_leaks *l, int is_full) {
    const struct ct_untracked_growth *g = &l->untracked;
    const struct ct_growth_shape *s = &g->shape;
    uint64_t ns;
    print_subject(v, g);
    fprintf(v->out, " grows: %s since %s (+%s per hour, %s, %s), to %s at %s",
            ct_label_size(v, s->kept_bytes).text, ct_label_time(v, s->since_ns).text,
            ct_label_size(v, ct_growth_shape_in(s, HOUR)).text, ct_growth_kind_name(s->kind),
            ct_sureness_name(s->confidence), ct_label_size(v, g->bytes).text,
            ct_label_time(v, g->read_ns).text);
    print_parts(v, g);
    if (!is_full && ct_leaks_count(l) > 1 && ct_leaks_full_in(l, s, &ns) && ns)
        fprintf(v->out, "; alone, it fills the device in %s", ct_human_seconds(ns).text);
    putc('\n', v->out);
}

void ct_untracked_growth_print(struct ct_view *v, const struct ct_leaks *l, int is_full) {
    const struct ct_untracked_growth *g = &l->untracked;
    const struct ct_growth_shape *s = &g->shape;
    if (ct_growth_kind_is_leak(s->kind)) {
        print_growing(v, l, is_full);
    } else if (s->kind == CT_GROWTH_KIND_SATURATING) {
        fputs("bounded: ", v->out);
        print_subject(v, g);
        ct_growth_print_bounded(v, s, "");
    } else if (s->kind == CT_GROWTH_KIND_UNTOLD && !ct_leaks_is_too_short(l)) {
        fputs("too little to tell: ", v->out);
        print_subject(v, g);
        fprintf(v->out,
                " has grown by %s: seen for too short a time, or lost events would explain "
                "it\n",
                ct_label_size(v, s->kept_bytes).text);
    }
}

void ct_untracked_growth_print_known(struct ct_view *v, const struct ct_leaks *l) {
    const struct ct_untracked_growth *g = &l->untracked;
    if (!g->known)
        fputs("; untracked memory is not known", v->out);
    else if (g->read_ns < l->to_ns - (l->to_ns - l->from_ns) / 16)
        fprintf(v->out, "; untracked memory is known up to %s", ct_label_time(v, g->read_ns).text);
}

// ---- JSON ---------------------------------------------------------------------------------------

void ct_growth_add_shape(struct ct_json *j, const struct ct_growth_shape *s) {
    const int is_leak = ct_growth_kind_is_leak(s->kind),
              is_any = is_leak || s->kind == CT_GROWTH_KIND_SATURATING;
    ct_json_text(j, "shape", ct_growth_kind_name(s->kind));
    ct_json_number_or_null(j, "since_t_ns", is_any, s->since_ns);
    ct_json_number_or_null(j, "filled_t_ns", s->filled_ns != 0, s->filled_ns);
    ct_json_number_or_null(j, "kept_bytes", is_any, s->kept_bytes);
    ct_json_number_or_null(j, "bytes_per_hour", is_leak, ct_growth_shape_in(s, HOUR));
    ct_json_number_or_null(j, "steps", is_leak, s->steps);
    if (is_leak)
        ct_json_ratio(j, "confidence", (uint64_t)(s->confidence * 10000 + 0.5), 10000);
    else
        ct_json_null(j, "confidence");
}

void ct_growth_add_full(struct ct_json *j, const struct ct_leaks *l,
                        const struct ct_growth_shape *s) {
    uint64_t ns = 0;
    const int known = ct_growth_kind_is_leak(s->kind) && ct_leaks_full_in(l, s, &ns);
    ct_json_number_or_null(j, "full_in_ns", known, ns);
}

void ct_untracked_growth_add_json(struct ct_json *j, const struct ct_leaks *l) {
    const struct ct_untracked_growth *g = &l->untracked;
    struct ct_measured measured = {.count = 0};
    if (!ct_json_open_or_null(j, "untracked", g->known, '{'))
        return;
    const int is_leak = ct_growth_kind_is_leak(g->shape.kind);
    ct_json_text(j, "whose", g->is_own ? "process" : "process-or-others");
    ct_json_number(j, "bytes", g->bytes);
    ct_json_number(j, "read_t_ns", g->read_ns);
    ct_growth_add_shape(j, &g->shape);
    ct_growth_add_full(j, l, &g->shape);
    for (unsigned i = 0; i < CT_MEASURED_PARTS; i++) {
        measured.bytes[i] = g->measured[i];
        measured.known[i] = is_leak && g->measured_known;
    }
    ct_untracked_add_costs(j, &measured);
    ct_json_close(j, '}');
}

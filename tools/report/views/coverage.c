// SPDX-License-Identifier: Apache-2.0
#include "views/steps.h"

#include <inttypes.h>
#include <string.h>

#include "analyze/untracked_curve.h"
#include "base/utf8.h"
#include "print/document.h"
#include "print/label.h"
#include "print/table.h"

enum { MOST_NAMES = 12, MOST_MODULES = 20 };

// ---- the facts ------------------------------------------------------------------------------

static void print_name(struct ct_view *v, const char *name) {
    fprintf(v->out, "  %-24s " CT_WRAP_HANG, name);
}

static void print_text(struct ct_view *v, struct ct_string s) {
    char text[200]; // of a name or a list of names
    ct_utf8_sanitize(text, sizeof text, s.at, s.length);
    fputs(text, v->out);
}

static void print_cupti(struct ct_view *v, const struct ct_coverage *c) {
    print_name(v, "CUPTI");
    if (!c->cupti)
        fputs("not asked for", v->out);
    else
        print_text(v, *c->cupti);
    if (c->audit_only_cupti)
        fprintf(v->out, "; %s that no hook saw",
                ct_human_counted(c->audit_only_cupti, "call").text);
    if (c->is_audited)
        fprintf(v->out, "; audit: both saw %s, hooks alone %s", ct_human_count(c->audit_both).text,
                ct_human_count(c->audit_only_preload).text);
    putc('\n', v->out);
}

static void print_ways(struct ct_view *v, const struct ct_coverage *c) {
    fprintf(v->out, "%sheard%s\n", v->terminal->bold, v->terminal->reset);
    print_name(v, "hooks");
    if (c->functions)
        fprintf(v->out, "%s of %s\n", ct_human_counted(c->calls, "call").text,
                ct_human_counted(c->functions, "driver function").text);
    else
        fputs("no call was counted\n", v->out);
    if (c->switched_off) {
        print_name(v, "recording");
        fprintf(v->out, "switched off %s by cutrace ctl\n",
                ct_human_counted(c->switched_off, "time").text);
    }
    print_cupti(v, c);
    print_name(v, "NVTX");
    if (c->nvtx_modules)
        fprintf(v->out, "%s\n", ct_human_counted(c->nvtx_modules, "module").text);
    else
        fputs("not heard\n", v->out);
    print_name(v, "PyTorch's allocator");
    if (c->torch) {
        fputs("version ", v->out);
        print_text(v, *c->torch);
    } else {
        fputs("not heard", v->out);
    }
    putc('\n', v->out);
}

static void print_passed(struct ct_view *v, const struct ct_coverage *c) {
    size_t hooked = 0;
    while (hooked < c->passed_count && c->passed[hooked].is_hooked)
        hooked++;
    print_name(v, "passed by name");
    fprintf(v->out, "%zu name%s without a hook\n", c->passed_count - hooked,
            ct_human_plural(c->passed_count - hooked));
    if (hooked) {
        print_name(v, "passed, hooked otherwise");
        for (size_t i = 0; i < hooked && i < MOST_NAMES; i++) {
            fputs(i ? ", " : "", v->out);
            print_text(v, c->passed[i].name);
            if (c->passed[i].version > 0)
                fprintf(v->out, " (%" PRId64 ")", c->passed[i].version);
        }
        if (hooked > MOST_NAMES)
            fprintf(v->out, ", %zu more (--json lists them)", hooked - MOST_NAMES);
        putc('\n', v->out);
    }
    if (c->names_dropped) {
        print_name(v, "names not kept");
        fprintf(v->out, "%s\n", ct_human_counted(c->names_dropped, "look-up").text);
    }
}

static void print_look_ups(struct ct_view *v, const struct ct_coverage *c) {
    fprintf(v->out, "%slook-ups of driver functions%s\n", v->terminal->bold, v->terminal->reset);
    for (int way = 0; c->is_recorded && way < CT_COVERAGE_WAYS; way++) {
        print_name(v, ct_coverage_way_name((enum ct_coverage_way)way));
        fprintf(v->out, "%s seen, %s got a wrapper\n", ct_human_count(c->look_ups[way].seen).text,
                ct_human_count(c->look_ups[way].wrapped).text);
    }
    if (!c->is_recorded) {
        print_name(v, "by way");
        fputs("not recorded by this version\n", v->out);
    }
    print_passed(v, c);
}

static void print_module(struct ct_view *v, const struct ct_coverage *c,
                         const struct ct_coverage_module *m) {
    char name[64];
    ct_utf8_sanitize(name, sizeof name, m->name.at, m->name.length);
    print_name(v, name);
    if (m->kind == CT_COVERAGE_RUNTIME) {
        fputs(strncmp(name, "libcudart.so", 12) ? "looks functions up as a CUDA runtime does"
                                                : "CUDA runtime",
              v->out);
        fputs("; its look-ups got wrappers\n", v->out);
        return;
    }
    fputs(m->kind == CT_COVERAGE_LOOK_UPS ? "has a CUDA runtime, whose look-ups go to "
                                          : "calls hooked functions of ",
          v->out);
    print_text(v, m->to);
    fputs(c->cupti_hears                 ? "; CUPTI hears these calls\n"
          : ct_coverage_is_past_hooks(m) ? "; not seen\n"
                                         : "; seen only if that calls on\n",
          v->out);
}

static void print_modules(struct ct_view *v, const struct ct_coverage *c) {
    fprintf(v->out, "%smodules%s ", v->terminal->bold, v->terminal->reset);
    if (!c->modules_known) {
        fputs(!c->is_recorded ? "not recorded by this version\n"
              : c->looks      ? "not known: they could not be read\n"
                              : "not looked at: the process ended before\n",
              v->out);
        return;
    }
    fprintf(v->out, "%s at the last of %s", ct_human_count(c->modules).text,
            ct_human_counted(c->looks, "look").text);
    if (c->modules_unreadable)
        fprintf(v->out, ", %s not readable", ct_human_count(c->modules_unreadable).text);
    if (c->drivers > 1)
        fprintf(v->out, ", the driver in %s namespaces", ct_human_count(c->drivers).text);
    putc('\n', v->out);
    for (size_t i = 0; i < c->count && i < MOST_MODULES; i++)
        print_module(v, c, &c->list[i]);
    if (c->count > MOST_MODULES)
        fprintf(v->out, "  %zu more (--json lists them)\n", c->count - MOST_MODULES);
    if (c->count == ct_coverage_count(c, CT_COVERAGE_RUNTIME))
        fputs("  none was found that bypasses the hooks\n", v->out);
}

static void print_children(struct ct_view *v, const struct ct_coverage *c) {
    fprintf(v->out, "%schild processes%s ", v->terminal->bold, v->terminal->reset);
    if (!c->children_known) {
        fputs(c->is_recorded ? "not known\n" : "not recorded by this version\n", v->out);
        return;
    }
    fprintf(v->out, "%s seen at a look", ct_human_count(c->children).text);
    if (c->children)
        fprintf(v->out, ", %s used CUDA without cutrace",
                c->children_untraced ? ct_human_count(c->children_untraced).text : "none");
    if (c->children_names.length) {
        fputs(": ", v->out);
        print_text(v, c->children_names);
    }
    if (c->children_unreadable)
        fprintf(v->out, "; %s not readable", ct_human_count(c->children_unreadable).text);
    putc('\n', v->out);
}

void ct_coverage_print_facts(struct ct_view *v, const struct ct_coverage *c) {
    print_ways(v, c);
    print_look_ups(v, c);
    print_modules(v, c);
    print_children(v, c);
}

// ---- untracked memory -----------------------------------------------------------------------

static const struct ct_table_column columns[] = {
    {"read at", 0, CT_TABLE_RIGHT},       {"used", 1, CT_TABLE_RIGHT},
    {"tracked", 2, CT_TABLE_RIGHT},       {"untracked", 0, CT_TABLE_RIGHT},
    {"share of used", 0, CT_TABLE_RIGHT}, {"of other processes", 3, CT_TABLE_RIGHT},
};

static void add_row(struct ct_view *v, struct ct_table *t, const struct ct_breakdown *b) {
    const uint64_t untracked = b->split_known ? b->untracked : b->unexplained;
    ct_table_add_row(t, ct_label_time(v, b->reading_t_ns).text, ct_label_size(v, b->used).text,
                     ct_label_size(v, b->tracked).text, ct_label_size(v, untracked).text,
                     b->used ? ct_human_percent(untracked, b->used).text : "-",
                     b->split_known ? ct_label_size(v, b->others).text : "-", NULL);
}

static int has_reading(const struct ct_untracked_share_device *d) {
    for (unsigned i = 0; i < CT_UNTRACKED_SHARE_PARTS; i++)
        if (d->part[i].known)
            return 1;
    return 0;
}

static void print_device(struct ct_view *v, const struct ct_untracked_share_device *d, int device) {
    struct ct_table table;
    int is_divided = 1;
    fprintf(v->out, "%suntracked memory of %s%s\n", v->terminal->bold,
            ct_label_device_in_full(v, device, NULL).text, v->terminal->reset);
    if (!has_reading(d)) {
        fputs("  not known: the device's memory was not read\n", v->out);
        return;
    }
    ct_table_init(&table, columns, sizeof columns / sizeof *columns, 2);
    for (unsigned i = 0; i < CT_UNTRACKED_SHARE_PARTS; i++)
        if (d->part[i].known) {
            add_row(v, &table, &d->part[i].at);
            is_divided &= d->part[i].at.split_known;
        }
    ct_table_print(v, &table);
    if (!is_divided)
        fputs("  where other processes have -, what they hold is part of untracked\n", v->out);
}

void ct_coverage_print_share(struct ct_view *v, const struct ct_untracked_share *share) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (share->device[d].seen)
            print_device(v, &share->device[d], d);
}

// ---- JSON -----------------------------------------------------------------------------------

static void add_ways(struct ct_json *j, const struct ct_coverage *c) {
    ct_json_number(j, "hook_calls", c->calls);
    ct_json_number(j, "hooked_functions_called", c->functions);
    ct_document_add_string(j, "cupti_state", c->cupti);
    ct_json_number(j, "nvtx_modules", c->nvtx_modules);
    ct_document_add_string(j, "torch_version", c->torch);
    if (!ct_json_open_or_null(j, "audit", c->is_audited, '{'))
        return;
    ct_json_number(j, "both", c->audit_both);
    ct_json_number(j, "only_cupti", c->audit_only_cupti);
    ct_json_number(j, "only_hooks", c->audit_only_preload);
    ct_json_close(j, '}');
}

static void add_look_ups(struct ct_json *j, const struct ct_coverage *c) {
    if (ct_json_open_or_null(j, "look_ups", c->is_recorded, '[')) {
        for (int way = 0; way < CT_COVERAGE_WAYS; way++) {
            ct_json_open(j, NULL, '{');
            ct_json_text(j, "way", ct_coverage_way_name((enum ct_coverage_way)way));
            ct_json_number(j, "seen", c->look_ups[way].seen);
            ct_json_number(j, "wrapped", c->look_ups[way].wrapped);
            ct_json_close(j, '}');
        }
        ct_json_close(j, ']');
    }
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
        ct_document_add_string(j, "to", &m->to);
        add_seen(j, c, m);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_children(struct ct_json *j, const struct ct_coverage *c) {
    if (!ct_json_open_or_null(j, "children", c->children_known, '{'))
        return;
    ct_json_number(j, "seen", c->children);
    ct_json_number(j, "untraced", c->children_untraced);
    ct_json_number(j, "unreadable", c->children_unreadable);
    ct_document_add_string(j, "untraced_names", &c->children_names);
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

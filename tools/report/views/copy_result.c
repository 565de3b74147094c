// SPDX-License-Identifier: Apache-2.0
#include "views/copy_result.h"

#include <inttypes.h>

#include "base/utf8.h"
#include "print/document.h"

void ct_copy_part_note(struct ct_copy_part *part, const struct ct_trace *t) {
    part->trace = t->source.name;
    part->has_journal = t->journal_found > 0;
    part->added_events = t->journal.folded;
    part->torn_events = t->torn;
}

void ct_copy_part_free(struct ct_copy_part *part) {
    ct_source_locations_free(&part->lines);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_replaced(struct ct_json *j, const struct ct_scrub *s) {
    ct_json_text(j, "scrub", ct_scrub_level_name(s ? s->level : CT_SCRUB_NO));
    ct_json_open(j, "replaced", '[');
    for (unsigned i = 0; i < CT_SCRUB_CLASS_COUNT && s && s->level != CT_SCRUB_NO; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "class", ct_scrub_class_name((enum ct_scrub_class)i));
        ct_json_number(j, "names", s->replaced[i]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_lines(struct ct_json *j, const struct ct_source_locations *l, int symbolize) {
    ct_json_number_or_null(j, "frames", symbolize, l->frames);
    ct_json_number_or_null(j, "frames_with_lines", symbolize, l->with_lines);
    ct_json_open(j, "modules_without_lines", '[');
    for (size_t i = 0; i < l->module_count; i++) {
        const struct ct_module_without_lines *m = &l->modules[i];
        ct_json_open(j, NULL, '{');
        ct_document_add_string(j, "module", &m->path);
        ct_json_number(j, "frames", m->frames);
        if (m->why)
            ct_json_text(j, "why", m->why);
        else
            ct_json_null(j, "why");
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_part(struct ct_json *j, const struct ct_copy_part *p, int symbolize) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "trace", p->trace);
    ct_json_number(j, "events", p->copied.events);
    ct_json_number(j, "events_before", p->copied.before);
    ct_json_number(j, "events_after", p->copied.after);
    ct_json_bool(j, "begins_earlier", p->copied.moved);
    ct_json_number_or_null(j, "added_events", p->has_journal, p->added_events);
    ct_json_number(j, "torn_events", p->torn_events);
    add_lines(j, &p->lines, symbolize);
    ct_json_close(j, '}');
}

static void print_json(const struct ct_copy_result *r, FILE *out) {
    const struct ct_arguments *o = r->options;
    struct ct_json json = {.out = out}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.copy/1");
    if (o->output)
        ct_json_bytes(j, "output", o->output, strlen(o->output));
    else
        ct_json_null(j, "output");
    ct_json_number(j, "bytes", r->bytes);
    add_replaced(j, r->scrub);
    ct_json_open(j, "traces", '[');
    for (size_t i = 0; i < r->count; i++)
        add_part(j, &r->parts[i], o->symbolize);
    ct_json_close(j, ']');
    ct_document_end(j);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_written(const struct ct_copy_result *r, FILE *out) {
    const struct ct_arguments *o = r->options;
    struct ct_copied all = {0};
    for (size_t i = 0; i < r->count; i++) {
        all.events += r->parts[i].copied.events;
        all.before += r->parts[i].copied.before;
        all.after += r->parts[i].copied.after;
        all.moved |= r->parts[i].copied.moved;
    }
    fputs("wrote ", out);
    ct_utf8_print_sanitized(out, o->output, strlen(o->output));
    fprintf(out, " (%s): ", ct_human_bytes(r->bytes, o->units).text);
    if (r->count > 1)
        fprintf(out, "%zu traces, ", r->count);
    fprintf(out, "%s event%s", ct_human_count(all.events).text, ct_human_plural(all.events));
    if (o->from.kind || o->to.kind)
        fprintf(out, "; left out: %s before, %s after", ct_human_count(all.before).text,
                ct_human_count(all.after).text);
    fputc('\n', out);
    if (all.moved)
        fputs("it begins earlier than asked for: there the state is not known in full\n", out);
}

static void print_replaced(const struct ct_copy_result *r, FILE *out) {
    const struct ct_scrub *s = r->scrub;
    fprintf(out, "--scrub=%s replaced these different names:\n", ct_scrub_level_name(s->level));
    for (unsigned i = 0; i < CT_SCRUB_CLASS_COUNT; i++)
        fprintf(out, "%8" PRIu64 "  %s\n", s->replaced[i],
                ct_scrub_class_plural((enum ct_scrub_class)i));
}

static void print_lines(const struct ct_source_locations *l, FILE *out) {
    fprintf(out, "lines for %s of %s native frames that had none\n",
            ct_human_count(l->with_lines).text, ct_human_count(l->frames).text);
    for (size_t i = 0; i < l->module_count; i++) {
        const struct ct_module_without_lines *m = &l->modules[i];
        fprintf(out, "%8s without: ", ct_human_count(m->frames).text);
        ct_utf8_print_sanitized(out, m->path.at, m->path.length);
        fprintf(out, "%s%s\n", m->why ? ": " : "", m->why ? m->why : "");
    }
}

static void print_text(const struct ct_copy_result *r, FILE *out) {
    print_written(r, out);
    if (r->scrub && r->scrub->level != CT_SCRUB_NO)
        print_replaced(r, out);
    for (size_t i = 0; i < r->count && r->options->symbolize; i++) {
        if (r->count > 1) {
            ct_utf8_print_sanitized(out, r->parts[i].trace, strlen(r->parts[i].trace));
            fputs(": ", out);
        }
        print_lines(&r->parts[i].lines, out);
    }
}

void ct_copy_result_print(const struct ct_copy_result *r, FILE *out) {
    if (r->options->json)
        print_json(r, out);
    else
        print_text(r, out);
}

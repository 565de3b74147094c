// SPDX-License-Identifier: Apache-2.0
// info: the facts that the trace has about its process; the events are not read.
#include <inttypes.h>

#include "base/utf8.h"
#include "views/document.h"
#include "views/label.h"
#include "views/trace_state.h"

static int compare_keys(const void *a, const void *b, void *names) {
    const struct ct_definitions *n = names;
    const struct ct_string *x = &n->strings[((const struct ct_info_pair *)a)->key];
    const struct ct_string *y = &n->strings[((const struct ct_info_pair *)b)->key];
    const int c = memcmp(x->at, y->at, x->length < y->length ? x->length : y->length);
    return c ? c : (x->length > y->length) - (x->length < y->length);
}

static struct ct_info_pair *sort_facts(struct ct_definitions *n) {
    const size_t count = n->info_count - 1;
    struct ct_info_pair *facts = ct_heap_resize(NULL, count, sizeof *facts);
    if (count) {
        memcpy(facts, n->info + 1, count * sizeof *facts);
        qsort_r(facts, count, sizeof *facts, compare_keys, n);
    }
    return facts;
}

// Prefixes of the counters of symbol look-ups. There are hundreds of these; the text has only their
// number.
static const char *const look_ups[] = {"unwrapped.", "way.resolved."};

// Returns the prefix that a key begins with, or NULL.
static const char *find_prefix(const struct ct_string *key) {
    for (size_t i = 0; i < sizeof look_ups / sizeof *look_ups; i++) {
        const size_t length = strlen(look_ups[i]);
        if (key->length > length && !memcmp(key->at, look_ups[i], length))
            return look_ups[i];
    }
    return NULL;
}

static void print_fact(struct ct_view *v, const struct ct_string *key,
                       const struct ct_string *value) {
    char name[200];
    ct_utf8_sanitize(name, sizeof name, key->at, key->length);
    fprintf(v->out, "%-32s ", name);
    ct_utf8_print_sanitized(v->out, value->at, value->length);
    putc('\n', v->out);
}

static void print_facts(struct ct_view *v, const struct ct_info_pair *facts, size_t count) {
    const struct ct_string *strings = v->trace->definitions.strings;
    for (size_t i = 0, n; i < count; i += n) {
        const char *prefix = find_prefix(&strings[facts[i].key]);
        char name[40];
        for (n = 1; prefix && i + n < count && find_prefix(&strings[facts[i + n].key]) == prefix;)
            n++;
        (void)snprintf(name, sizeof name, "%s*", prefix ? prefix : "");
        if (prefix)
            fprintf(v->out, "%-32s %zu name%s (--json lists them)\n", name, n, n == 1 ? "" : "s");
        else
            print_fact(v, &strings[facts[i].key], &strings[facts[i].value]);
    }
}

static void print_text(struct ct_view *v, const struct ct_info_pair *facts, size_t count) {
    const struct ct_trace *t = v->trace;
    const struct ct_definitions *n = &t->definitions;
    fprintf(v->out, "%-32s %s\n", "events", ct_human_count(t->events).text);
    fprintf(v->out, "%-32s %zu, numbers %" PRIu64 " to %" PRIu64 "\n", "chunks", t->index.count,
            t->index.chunks[0].head.seq, t->index.chunks[t->index.count - 1].head.seq);
    const struct ct_human_text start = ct_label_utc(v, t->start_ns, 1);
    fprintf(v->out, "%-32s %s\n", "start", *start.text ? start.text : "-");
    fprintf(v->out, "%-32s %s\n", "time",
            ct_human_seconds(t->t_last_ns > t->t_first_ns ? t->t_last_ns - t->t_first_ns : 0).text);
    fprintf(v->out, "%-32s %s%s\n", "clean end",
            t->ended ? "yes" : "no: ", t->ended ? "" : ct_trace_state_end(t));
    if (t->torn)
        fprintf(v->out, "%-32s %" PRIu64 "\n", "torn events", t->torn);
    if (t->overwritten_events) {
        fprintf(v->out, "%-32s ", "overwritten");
        ct_trace_state_print_overwritten(v);
        putc('\n', v->out);
    }
    fprintf(v->out, "%-32s %d\n", "format version", t->index.chunks[0].head.version);
    fprintf(v->out, "%-32s %016" PRIx64 "\n", "trace id", t->index.trace_id);
    fprintf(v->out, "%-32s %zu\n", "stacks", n->defined_stacks);
    print_facts(v, facts, count);
}

static void add_module(struct ct_json *j, const struct ct_definitions *n, size_t i) {
    const struct ct_string *id = &n->modules[i].build_id, *path = &n->strings[n->modules[i].path];
    char build_id[140] = "";
    for (uint32_t b = 0; b < id->length && b < 64; b++)
        (void)snprintf(build_id + 2 * (size_t)b, 3, "%02x", (unsigned char)id->at[b]);
    ct_json_open(j, NULL, '{');
    ct_json_bytes(j, "path", path->at, path->length);
    ct_json_text(j, "build_id", build_id);
    ct_json_hex(j, "base", n->modules[i].base);
    ct_json_hex(j, "start", n->modules[i].start);
    ct_json_hex(j, "end", n->modules[i].end);
    ct_json_close(j, '}');
}

static void print_json(struct ct_view *v, const struct ct_info_pair *facts, size_t count) {
    struct ct_json json = {.out = v->out}, *j = &json;
    const struct ct_trace *t = v->trace;
    const struct ct_definitions *n = &t->definitions;
    char id[20];
    (void)snprintf(id, sizeof id, "%016" PRIx64, t->index.trace_id);
    ct_document_begin_bare(j, v);
    ct_json_text(j, "trace_id", id);
    ct_json_number(j, "format_version", t->index.chunks[0].head.version);
    ct_json_number(j, "events", t->events);
    ct_json_number(j, "chunks", t->index.count);
    ct_json_number(j, "first_chunk", t->index.chunks[0].head.seq);
    ct_json_number(j, "last_chunk", t->index.chunks[t->index.count - 1].head.seq);
    ct_json_number(j, "missing_chunks", t->index.missing);
    ct_json_number(j, "foreign_chunks", t->index.foreign);
    ct_document_add_recording(j, t);
    ct_document_add_start(j, t);
    ct_json_number_or_null(j, "t_first_ns", t->t_first_ns != 0, t->t_first_ns);
    ct_json_number_or_null(j, "t_last_ns", t->t_last_ns != 0, t->t_last_ns);
    ct_json_number(j, "stacks", n->defined_stacks);
    ct_json_open(j, "info", '{');
    for (size_t i = 0; i < count; i++) {
        const struct ct_string *key = &n->strings[facts[i].key],
                               *value = &n->strings[facts[i].value];
        ct_json_key(j, key->at, key->length);
        ct_json_bytes(j, "", value->at, value->length);
    }
    ct_json_close(j, '}');
    ct_json_open(j, "modules", '[');
    for (size_t i = 1; i < n->module_count; i++)
        add_module(j, n, i);
    ct_json_close(j, ']');
    ct_document_end(j);
}

int ct_view_info(struct ct_view *v) {
    struct ct_info_pair *facts = sort_facts(&v->trace->definitions);
    const size_t count = v->trace->definitions.info_count - 1;
    if (v->options->json)
        print_json(v, facts, count);
    else
        print_text(v, facts, count);
    free(facts);
    return CT_EXIT_OK;
}

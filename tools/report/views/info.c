// SPDX-License-Identifier: Apache-2.0
// info: whether the trace can be trusted, and what it says of its process and of the recording.
#include "views/steps.h"

#include <inttypes.h>

#include "base/utf8.h"
#include "print/companions_print.h"
#include "print/document.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "question/pass.h"
#include "read/event_names.h"
#include "read/index.h"
#include "replay/digest_replay.h"
#include "views/views.h"

// ---- integrity ----------------------------------------------------------------------------------
// What is wrong with the file of a trace: damage, missing chunks, events that contradict their
// chunk or its digest.

struct ct_integrity {
    struct ct_trace *trace;
    uint64_t events, lost, out_of_order, outside, unknown_ops, unknown_stacks;
    uint64_t last_ns; // of the last event
    int ok;
};

static int note(void *integrity, const struct ct_replay *r, const struct ct_event *e,
                uint64_t number) {
    struct ct_integrity *const i = integrity;
    (void)r;
    (void)number;
    i->events++;
    if (e->op == CT_OP_LOST)
        i->lost += CT_HAS(e, count) ? e->count : 1;
    i->out_of_order += e->t_ns < i->last_ns;
    i->unknown_ops += !ct_event_names_op(e->op);
    i->unknown_stacks += CT_HAS(e, stack) && !e->stack;
    i->last_ns = e->t_ns;
    return 1;
}

// Hears all events of a pass over the trace.
static struct ct_listener integrity_listener(struct ct_integrity *i, struct ct_trace *t) {
    *i = (struct ct_integrity){.trace = t};
    return (struct ct_listener){.self = i, .before = note};
}

// After the pass: compares the digests of all chunks with what their events say, and decides.
static void integrity_finish(struct ct_integrity *i) {
    const struct ct_trace *t = i->trace;
    i->outside = t->outside;
    i->lost = ct_trace_count_lost(t, i->lost);
    (void)ct_digest_replay_check(i->trace);
    i->ok = !t->index.damages && !t->index.missing && !t->missing_events &&
            i->events == t->events && !i->out_of_order && !i->unknown_stacks;
}

static const struct {
    const char *key, *text;
    size_t at;
} kinds[] = {
    {"out_of_order", "events are earlier than their predecessor",
     offsetof(struct ct_integrity, out_of_order)},
    {"outside_chunk", "events lie outside the times of their chunk",
     offsetof(struct ct_integrity, outside)},
    {"unknown_operations", "events have an operation that this version does not know",
     offsetof(struct ct_integrity, unknown_ops)},
    {"unresolved_stacks", "events name a stack that is not defined",
     offsetof(struct ct_integrity, unknown_stacks)},
};

static uint64_t count_kind(const struct ct_integrity *i, size_t kind) {
    uint64_t n;
    memcpy(&n, (const char *)i + kinds[kind].at, sizeof n);
    return n;
}

// Adds it as the value of "integrity"; NULL: it was not looked at.
static void integrity_add_json(struct ct_json *j, const struct ct_integrity *i) {
    if (!ct_json_open_or_null(j, "integrity", i != NULL, '{'))
        return;
    ct_json_bool(j, "ok", i->ok);
    ct_json_bool(j, "complete", ct_trace_has_every_event(i->trace, i->lost));
    ct_json_number(j, "events_read", i->events);
    ct_json_number(j, "lost_events", i->lost);
    ct_json_number(j, "missing_events", i->trace->missing_events);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        ct_json_number(j, kinds[k].key, count_kind(i, k));
    ct_document_add_damage(j, &i->trace->index);
    ct_json_close(j, '}');
}

static void print_chunks(FILE *out, const struct ct_trace *t) {
    const struct ct_index *x = &t->index;
    for (size_t k = 0; k < x->damages; k++)
        fprintf(out, "offset %" PRIu64 ": %s (%" PRIu64 " bytes)\n", x->damage[k].offset,
                x->damage[k].what, x->damage[k].bytes);
    if (x->missing)
        fprintf(out, "%" PRIu64 " chunk%s missing between others, with %" PRIu64 " event%s\n",
                x->missing, x->missing == 1 ? " is" : "s are", t->missing_events,
                ct_human_plural(t->missing_events));
    if (x->foreign)
        fprintf(out, "%" PRIu64 " chunk%s of another trace %s skipped\n", x->foreign,
                ct_human_plural(x->foreign), x->foreign == 1 ? "was" : "were");
}

// Prints each finding as a line, then "ok: 22 events in 1 chunk, complete from start to end".
static void integrity_print(struct ct_view *v, const struct ct_integrity *i) {
    const struct ct_trace *t = i->trace;
    print_chunks(v->out, t);
    if (i->events != t->events)
        fprintf(v->out, "%" PRIu64 " events were read, the prefixes count %" PRIu64 "\n", i->events,
                t->events);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (count_kind(i, k))
            fprintf(v->out, "%" PRIu64 " %s\n", count_kind(i, k), kinds[k].text);
    if (i->lost > t->missing_events)
        fprintf(v->out, "%" PRIu64 " event%s lost by the recorder\n", i->lost - t->missing_events,
                i->lost - t->missing_events == 1 ? " was" : "s were");
    fprintf(v->out, "%s: %" PRIu64 " event%s in %zu chunk%s%s\n", i->ok ? "ok" : "damaged",
            i->events, ct_human_plural(i->events), t->index.count, ct_human_plural(t->index.count),
            ct_trace_has_every_event(t, i->lost) ? ", complete from start to end" : "");
}

// ---- facts --------------------------------------------------------------------------------------

enum { KEY = 36 }; // columns of "hook.cuDevicePrimaryCtxRelease.calls"

static int compare_keys(const void *a, const void *b, void *names) {
    const struct ct_definitions *n = names;
    return ct_string_compare(n->strings[((const struct ct_info_pair *)a)->key],
                             n->strings[((const struct ct_info_pair *)b)->key]);
}

// Sorted by their keys.
struct facts {
    const struct ct_string *strings;
    struct ct_info_pair *list;
    size_t count;
};

static struct facts sort_facts(struct ct_definitions *n) {
    struct facts f = {.strings = n->strings, .count = n->info_count - 1};
    f.list = ct_heap_resize(NULL, f.count, sizeof *f.list);
    if (f.count) {
        memcpy(f.list, n->info + 1, f.count * sizeof *f.list);
        qsort_r(f.list, f.count, sizeof *f.list, compare_keys, n);
    }
    return f;
}

// The value of a key, or NULL.
static const struct ct_string *find_fact(const struct facts *f, const struct ct_string *key) {
    size_t low = 0, high = f->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int c = ct_string_compare(f->strings[f->list[middle].key], *key);
        if (!c)
            return &f->strings[f->list[middle].value];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// Beginnings of keys whose facts the sections below say in words; the document has them all.
static const char *const said_below[] = {"audit.both.", "coverage.", "look_ups.", "unwrapped.",
                                         "way.resolved."};

static int is_said_below(const struct ct_string *key) {
    for (size_t i = 0; i < sizeof said_below / sizeof *said_below; i++) {
        const size_t n = strlen(said_below[i]);
        if (key->length > n && memcmp(key->at, said_below[i], n) == 0)
            return 1;
    }
    return 0;
}

static void print_key(struct ct_view *v, const char *key) {
    const size_t n = ct_utf8_columns(key);
    fprintf(v->out, "%s%*s " CT_WRAP_HANG, key, (int)(n < KEY ? KEY - n : 0), "");
}

// Where a flag was given is a fact of its own, KEY.from. The text has it after the flag's value.
static const char origin[] = ".from";
enum { ORIGIN = sizeof origin - 1, MOST_KEY = 200 };

static int has_origin(const struct ct_string *key) {
    static const char flag[] = "flag.", program[] = "process.program";
    return (key->length > sizeof flag - 1 && !memcmp(key->at, flag, sizeof flag - 1)) ||
           (key->length >= sizeof program - 1 && !memcmp(key->at, program, sizeof program - 1));
}

static const struct ct_string *find_origin(const struct facts *f, const struct ct_string *key) {
    char text[MOST_KEY + ORIGIN];
    if (key->length > MOST_KEY || !has_origin(key))
        return NULL;
    memcpy(text, key->at, key->length);
    memcpy(text + key->length, origin, ORIGIN);
    return find_fact(f, &(struct ct_string){text, key->length + ORIGIN});
}

// Whether a key is the origin of another fact, which has it in its line.
static int is_origin(const struct facts *f, const struct ct_string *key) {
    if (key->length <= ORIGIN || key->length > MOST_KEY + ORIGIN || !has_origin(key) ||
        memcmp(key->at + key->length - ORIGIN, origin, ORIGIN) != 0)
        return 0;
    const struct ct_string flag = {key->at, key->length - ORIGIN};
    return has_origin(&flag) && find_fact(f, &flag) != NULL;
}

static void print_fact(struct ct_view *v, const struct facts *f, const struct ct_info_pair *fact) {
    const struct ct_string *key = &f->strings[fact->key], *value = &f->strings[fact->value];
    char name[200];
    if (is_origin(f, key))
        return;
    const struct ct_string *from = find_origin(f, key);
    ct_utf8_sanitize(name, sizeof name, key->at, key->length);
    print_key(v, name);
    ct_utf8_print_sanitized(v->out, value->at, value->length);
    if (from) {
        fputs(" (", v->out);
        ct_utf8_print_sanitized(v->out, from->at, from->length);
        putc(')', v->out);
    }
    putc('\n', v->out);
}

static void print_facts(struct ct_view *v, const struct facts *f) {
    for (size_t i = 0; i < f->count; i++)
        if (!is_said_below(&f->strings[f->list[i].key]))
            print_fact(v, f, &f->list[i]);
}

static void print_recording(struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    print_key(v, "clean end");
    fprintf(v->out, "%s%s\n", t->ended ? "yes" : "no: ", t->ended ? "" : ct_trace_state_end(t));
    if (t->torn) {
        print_key(v, "torn events");
        fprintf(v->out, "%" PRIu64 "\n", t->torn);
    }
    if (t->overwritten_events) {
        print_key(v, "overwritten");
        ct_trace_state_print_overwritten(v);
        putc('\n', v->out);
    }
}

// Only where some chunks have one and others have none: older recorders wrote none at all.
static void print_digests(struct ct_view *v) {
    struct ct_index *x = &v->trace->index;
    const size_t n = ct_digest_count(x, &v->trace->source);
    if (!n || n == x->count)
        return;
    print_key(v, "digests");
    fprintf(v->out, "%zu of %zu chunks have one\n", n, x->count);
}

static void print_text(struct ct_view *v, const struct facts *facts) {
    const struct ct_trace *t = v->trace;
    const struct ct_index_chunk *last = &t->index.chunks[t->index.count - 1];
    const struct ct_human_text start = ct_label_utc(v, t->start_ns, 1);
    const uint64_t duration = t->t_last_ns > t->t_first_ns ? t->t_last_ns - t->t_first_ns : 0;
    print_key(v, "events");
    fprintf(v->out, "%s\n", ct_human_count(t->events).text);
    print_key(v, "chunks");
    fprintf(v->out, "%zu, numbers %" PRIu64 " to %" PRIu64 "\n", t->index.count,
            t->index.chunks[0].head.seq, last->head.seq);
    print_digests(v);
    print_key(v, "start");
    fprintf(v->out, "%s\n", *start.text ? start.text : "-");
    print_key(v, "time");
    fprintf(v->out, "%s\n", ct_human_seconds(duration).text);
    print_recording(v);
    print_key(v, "format version");
    fprintf(v->out, "%d\n", t->index.chunks[0].head.version);
    print_key(v, "trace id");
    fprintf(v->out, "%016" PRIx64 "\n", t->index.trace_id);
    print_key(v, "stacks");
    fprintf(v->out, "%zu\n", t->definitions.defined_stacks);
    print_facts(v, facts);
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

static void add_recording(struct ct_json *j, const struct ct_trace *t) {
    char id[20];
    (void)snprintf(id, sizeof id, "%016" PRIx64, t->index.trace_id);
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
    ct_json_number(j, "stacks", t->definitions.defined_stacks);
}

static void add_facts(struct ct_json *j, struct ct_definitions *n) {
    const struct facts facts = sort_facts(n);
    ct_json_open(j, "info", '{');
    for (size_t i = 0; i < facts.count; i++) {
        const struct ct_string *key = &n->strings[facts.list[i].key],
                               *value = &n->strings[facts.list[i].value];
        ct_json_key(j, key->at, key->length);
        ct_json_bytes(j, "", value->at, value->length);
    }
    ct_json_close(j, '}');
    free(facts.list);
}

void ct_info_print_json(struct ct_view *v, const struct ct_untracked_share *share,
                        const struct ct_integrity *integrity, uint64_t lost) {
    struct ct_json json = {.out = v->out}, *j = &json;
    struct ct_definitions *n = &v->trace->definitions;
    struct ct_coverage coverage;
    char limits[CT_COVERAGE_LIMITS];
    ct_coverage_read(&coverage, v->trace);
    (void)ct_coverage_limits(&coverage, lost, limits);
    ct_document_begin_bare(j, v);
    add_recording(j, v->trace);
    add_facts(j, n);
    ct_json_open(j, "modules", '[');
    for (size_t i = 1; i < n->module_count; i++)
        add_module(j, n, i);
    ct_json_close(j, ']');
    ct_coverage_add_json(j, limits, &coverage, share);
    integrity_add_json(j, integrity);
    ct_companions_add_json(j, v, NULL);
    ct_document_end(j);
    ct_coverage_free(&coverage);
}

void ct_info_print_facts(struct ct_view *v) {
    const struct facts facts = sort_facts(&v->trace->definitions);
    print_text(v, &facts);
    free(facts.list);
    ct_companions_print(v, NULL);
}

static void print(struct ct_view *v, const struct ct_untracked_share *share,
                  const struct ct_integrity *integrity) {
    struct ct_coverage coverage;
    ct_coverage_read(&coverage, v->trace);
    fputs(v->terminal->bold, v->out);
    integrity_print(v, integrity);
    ct_coverage_limits_print(v, integrity->lost);
    fputs(v->terminal->reset, v->out);
    ct_info_print_facts(v);
    ct_coverage_print_facts(v, &coverage);
    ct_coverage_print_share(v, share);
    ct_coverage_free(&coverage);
}

int ct_view_info(struct ct_view *v) {
    struct ct_untracked_share share;
    struct ct_integrity integrity;
    struct ct_pass pass;
    const struct ct_listener listeners[] = {ct_untracked_share_listener(&share, v->trace),
                                            integrity_listener(&integrity, v->trace)};
    ct_pass_init(&pass, NULL);
    ct_listeners_add(&pass.listeners, &listeners[0]);
    ct_listeners_add(&pass.listeners, &listeners[1]);
    ct_pass_run(&pass, v->trace);
    ct_pass_free(&pass);
    integrity_finish(&integrity);
    if (v->options->json)
        ct_info_print_json(v, &share, &integrity, integrity.lost);
    else
        print(v, &share, &integrity);
    return integrity.ok ? CT_EXIT_OK : CT_EXIT_BAD_TRACE;
}

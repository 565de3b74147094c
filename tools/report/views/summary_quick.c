// SPDX-License-Identifier: Apache-2.0
// Every figure here is the recorder's, and the text says so. It never says that something did not
// happen: only the events show that.
#include "views/quick.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/capacity.h"
#include "base/heap.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "print/print.h"
#include "print/trace_state.h"
#include "read/event_names.h"
#include "read/index.h"

enum {
    NS_PER_EVENT = 100, // of a pass over all events, on a processor of 2.6 GHz
    SHOWN_DEVICES = 4,
    SHOWN_FAILED = 6,
    SHOWN_OPS = 6,
    SHOWN_SITES = 8,
    SECOND = 1000000000,
};

// ---- what is shown ------------------------------------------------------------------------------

static const char *at_least(int is_exact) {
    return is_exact ? "" : "at least ";
}

static void write_headline(const struct ct_quick *q, char *to, size_t size) {
    const struct ct_view *v = &q->view;
    const struct ct_recorder_notes *n = &q->notes;
    const struct ct_noted_device *d = q->main >= 0 ? &n->device[q->main] : NULL;
    if (!n->noted) {
        (void)snprintf(
            to, size,
            "No chunk has notes of the recorder, and no event was read: nothing is known "
            "of memory yet");
        return;
    }
    int at = snprintf(to, size, "By the recorder's notes, no event was read: ");
    if (!d || !d->has_peak) {
        (void)snprintf(to + at, size - (size_t)at, "%s",
                       d ? "the peak is not among them" : "they name no GPU memory");
        return;
    }
    const struct ct_human_text utc = ct_label_utc(v, d->peak_ns, 0);
    at += snprintf(to + at, size - (size_t)at, "%s had %s%s allocated at the peak",
                   ct_label_device(q->main).text, at_least(d->peak_is_exact),
                   ct_label_size(v, d->peak_bytes).text);
    if (d->peak_bytes)
        (void)snprintf(to + at, size - (size_t)at, ", first at %s%s%s%s",
                       ct_label_time(v, d->peak_ns).text, *utc.text ? " (" : "", utc.text,
                       *utc.text ? ")" : "");
}

static void print_failed(struct ct_quick *q) {
    const struct ct_recorder_notes *n = &q->notes;
    FILE *out = q->view.out;
    if (!n->failed) {
        fprintf(out, "requests for memory that failed: none noted%s\n",
                q->is_whole ? "" : ", where there are notes");
        return;
    }
    fprintf(out, "requests for memory that failed: %s%s, event%s", at_least(q->is_whole),
            ct_human_count(n->failed).text, ct_human_plural(n->failed));
    for (uint64_t i = 0; i < n->failed && i < SHOWN_FAILED; i++)
        fprintf(out, "%s %" PRIu64, i ? "," : "", n->failed_event[i]);
    fprintf(out, "%s (sizes, incidents and retries are not noted: cutrace-report oom)\n",
            n->failed > SHOWN_FAILED ? ", ..." : "");
}

static void print_device(struct ct_quick *q, int device) {
    struct ct_view *v = &q->view;
    const struct ct_noted_device *d = &q->notes.device[device];
    const struct ct_string *name = ct_capacity_device_name(v->trace, device);
    fprintf(v->out, "%s%s%s", v->terminal->bold, ct_label_device(device).text, v->terminal->reset);
    if (name->length) {
        fputs(" (", v->out);
        ct_utf8_print_sanitized(v->out, name->at, name->length < 60 ? name->length : 60);
        putc(')', v->out);
    }
    fputs(": " CT_WRAP_HANG, v->out);
    if (d->has_peak)
        fprintf(v->out, "%s%s allocated at the peak", at_least(d->peak_is_exact),
                ct_label_size(v, d->peak_bytes).text);
    else
        fputs("its peak is not known", v->out);
    if (d->has_peak && d->peak_bytes)
        fprintf(v->out, ", first at event %" PRIu64, d->peak_event);
    if (q->notes.live_is_known && !q->notes.failed_frees)
        fprintf(v->out, "; %s live at %s", ct_label_size(v, d->live_bytes).text,
                ct_label_time(v, q->notes.live_ns).text);
    if (d->has_lowest) {
        fprintf(v->out, "; least free by cuMemGetInfo %s%s of %s, at %s",
                q->is_whole ? "" : "at most ", ct_label_size(v, d->lowest.free).text,
                ct_label_size(v, d->lowest.total).text, ct_label_time(v, d->lowest.t_ns).text);
    }
    if (d->has_reported) {
        fprintf(v->out, "; PyTorch: %s%s allocated at most, %s reserved", at_least(q->is_whole),
                ct_label_size(v, d->most_allocated).text, ct_label_size(v, d->most_reserved).text);
    }
    putc('\n', v->out);
}

static void print_devices(struct ct_quick *q) {
    unsigned shown = 0, more = 0;
    for (int i = 0; i < CT_DEVICES; i++) {
        if (!q->notes.device[i].seen)
            continue;
        if (shown++ < SHOWN_DEVICES)
            print_device(q, i);
        else
            more++;
    }
    if (more)
        fprintf(q->view.out, "%u more devices (--json)\n", more);
}

// A character for chunks that follow one another: the most that was live in them.
static void print_growth(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    const struct ct_recorder_notes *n = &q->notes;
    uint64_t top = 0;
    if (q->main < 0 || n->chunks < 2)
        return;
    for (unsigned i = 0; i < n->columns; i++)
        top = n->column[i].most[q->main] > top ? n->column[i].most[q->main] : top;
    fprintf(v->out, "live on %s, chunk by chunk: |", ct_label_device(q->main).text);
    for (unsigned i = 0; i < n->columns; i++) {
        const struct ct_noted_column *c = &n->column[i];
        fputs(c->without == c->chunks ? "?" : ct_print_height(v, c->most[q->main], top), v->out);
    }
    fprintf(v->out, "| highest %s\n", ct_label_size(v, top).text);
}

// Takes the operation with the most events out of a list. CT_DIGEST_OPS: none is left.
static unsigned take_most(uint64_t *ops) {
    unsigned best = CT_DIGEST_OPS;
    for (unsigned op = 0; op < CT_DIGEST_OPS; op++)
        if (ops[op] && (best == CT_DIGEST_OPS || ops[op] > ops[best]))
            best = op;
    return best;
}

static void print_events(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    const struct ct_trace *t = v->trace;
    uint64_t ops[CT_DIGEST_OPS], others = 0;
    unsigned op;
    memcpy(ops, q->notes.ops, sizeof ops);
    fprintf(v->out, "%s", ct_human_counted(t->events, "event").text);
    if (t->events)
        fprintf(v->out, " from %s to %s", ct_label_time(v, t->t_first_ns).text,
                ct_label_time(v, t->t_last_ns).text);
    for (unsigned i = 0; i < SHOWN_OPS && (op = take_most(ops)) < CT_DIGEST_OPS; i++) {
        const char *name = ct_event_names_op(op);
        fprintf(v->out, "%s %s%s %s", i ? "," : ":", at_least(q->is_whole),
                ct_human_count(ops[op]).text, name ? name : "of unknown kinds");
        ops[op] = 0;
    }
    for (op = 0; op < CT_DIGEST_OPS; op++)
        others += ops[op];
    if (others)
        fprintf(v->out, ", %s others", ct_human_count(others).text);
    putc('\n', v->out);
}

static void print_process(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    const struct ct_definitions *of = &v->trace->definitions;
    const struct ct_string *exe = ct_definitions_info(of, "process.exe");
    uint64_t pid;
    if (ct_definitions_info_number(of, "process.pid", &pid))
        fprintf(v->out, "process %" PRIu64, pid);
    else
        fputs("process -", v->out);
    if (exe) {
        putc(' ', v->out);
        ct_utf8_print_sanitized(v->out, exe->at, exe->length < 200 ? exe->length : 200);
    }
    fputs(": ", v->out);
    print_events(q);
}

static void print_sites(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    const struct ct_recorder_notes *n = &q->notes;
    if (!q->groups.count)
        return;
    if (q->has_gained) {
        fprintf(v->out, "%sgained by call site%s since %s: taken, less what was given back\n",
                v->terminal->bold, v->terminal->reset, ct_label_time(v, v->trace->t_first_ns).text);
    } else {
        fprintf(v->out,
                "%staken by call site%s, at least: %zu of %zu chunks list the largest only\n",
                v->terminal->bold, v->terminal->reset, n->with_rest, n->noted);
    }
    ct_print_site_groups(v, &q->groups, q->in_groups,
                         v->options->top ? v->options->top : SHOWN_SITES, CT_PRINT_NO_SITE);
    if (q->unnamed)
        fprintf(v->out, "%s more call sites, whose names were not read (cutrace-report top)\n",
                ct_human_count(q->unnamed).text);
}

// ---- what is not known --------------------------------------------------------------------------

// Begins another part of the line.
static void say(struct ct_quick *q, int *said) {
    fputs(*said ? "; " : "not known: " CT_WRAP_HANG, q->view.out);
    *said = 1;
}

static void print_gaps(struct ct_quick *q, int *said) {
    const struct ct_recorder_notes *n = &q->notes;
    struct ct_view *v = &q->view;
    const struct ct_index *x = &v->trace->index;
    if (n->noted < n->chunks) {
        say(q, said);
        fprintf(v->out, "%zu of %zu chunk%s ha%s no notes (%s", n->chunks - n->noted, n->chunks,
                ct_human_plural(n->chunks), n->chunks - n->noted == 1 ? "s" : "ve",
                ct_human_counted(n->unnoted_events, "event").text);
        if (n->unnoted_events)
            fprintf(v->out, ", from %s to %s", ct_label_time(v, n->unnoted_from_ns).text,
                    ct_label_time(v, n->unnoted_to_ns).text);
        putc(')', v->out);
    }
    if (x->missing) {
        say(q, said);
        fprintf(v->out, "%" PRIu64 " chunk%s missing between others", x->missing,
                x->missing == 1 ? " is" : "s are");
    }
    if (x->damages) {
        say(q, said);
        fprintf(v->out, "offset %" PRIu64 ": %s%s", x->damage[0].offset, x->damage[0].what,
                x->damages > 1 ? " (the first of several places)" : "");
    }
}

static void print_unknown(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    int said = 0;
    print_gaps(q, &said);
    if (v->trace->incomplete) {
        say(q, &said);
        fputs("no clean end, and the journal was not read", v->out);
    }
    if (q->notes.failed_frees) {
        say(q, &said);
        fprintf(v->out, "%s failed, so that more was live than the notes say",
                ct_human_counted(q->notes.failed_frees, "free").text);
    }
    if (said)
        putc('\n', v->out);
    if (ct_trace_state_print_overwritten(v))
        putc('\n', v->out);
}

// ---- the screen ---------------------------------------------------------------------------------

static void print_next(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    const uint64_t ns = q->estimate_ns;
    fprintf(v->out, "%sproof: cutrace-report summary ", v->terminal->dim);
    ct_utf8_print_sanitized(v->out, v->trace->source.name, strlen(v->trace->source.name));
    fprintf(v->out, " (reads all events: ");
    if (ns < SECOND)
        fputs("less than a second)", v->out);
    else
        fprintf(v->out, "about %" PRIu64 " s)", (ns + SECOND / 2) / SECOND);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_text(struct ct_quick *q) {
    struct ct_view *v = &q->view;
    char headline[300];
    v->out = ct_terminal_open_text(v->terminal, stdout);
    ct_trace_state_print_trimmed(v);
    ct_trace_state_print_estimate(v);
    write_headline(q, headline, sizeof headline);
    fprintf(v->out, "%s%s%s\n", v->terminal->bold, headline, v->terminal->reset);
    if (q->notes.noted) {
        print_failed(q);
        print_devices(q);
        print_growth(q);
    }
    print_process(q);
    print_sites(q);
    print_unknown(q);
    print_next(q);
    fclose(v->out);
}

// ---- reading ------------------------------------------------------------------------------------

// What the named call sites gained, where all that they did is known, else what they took.
static void group_sites(struct ct_quick *q) {
    const struct ct_recorder_notes *n = &q->notes;
    struct ct_holding *list = ct_heap_alloc_zeroed(n->sites + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < n->sites; i++)
        q->unnamed += !n->site[i].is_named;
    q->has_gained = q->is_whole && !n->with_rest && !q->unnamed;
    for (size_t i = 0; i < n->sites; i++) {
        const struct ct_noted_site *s = &n->site[i];
        const struct ct_digest_sum *given = &s->flow.given;
        struct ct_holding h = {.kind = CT_HOLDING_ALLOCATION,
                               .stack = s->stack,
                               .bytes = s->flow.taken.bytes,
                               .count = s->flow.taken.count};
        if (q->has_gained) {
            h.bytes = h.bytes > given->bytes ? h.bytes - given->bytes : 0;
            h.count = h.count > given->count ? h.count - given->count : 0;
        }
        if (!s->is_named || !h.bytes)
            continue;
        q->in_groups += h.bytes;
        list[count++] = h;
    }
    ct_site_groups_build(&q->groups, q->view.sites, list, count);
    free(list);
}

static int open_headers(struct ct_quick *q, const struct ct_arguments *o,
                        const struct ct_terminal *terminal, const char *path,
                        struct ct_error *error) {
    *q = (struct ct_quick){.view = {.options = o,
                                    .terminal = terminal,
                                    .trace = &q->trace,
                                    .sites = &q->sites,
                                    .to_ns = UINT64_MAX,
                                    .out = stdout}};
    if (ct_trace_headers_open(&q->trace, path, error))
        return -1;
    q->estimate_ns = q->trace.events * NS_PER_EVENT;
    return 0;
}

static void read_notes(struct ct_quick *q) {
    (void)ct_digest_check_chain(&q->trace.index, &q->trace.source);
    struct ct_header_names names = ct_trace_headers_begin_names(&q->trace);
    ct_recorder_notes_read(&q->notes, &q->trace, &names);
    q->is_whole = ct_recorder_notes_are_whole(&q->notes, &q->trace);
    q->main = ct_recorder_notes_main_device(&q->notes);
    ct_call_sites_init(&q->sites, &q->trace.definitions);
    group_sites(q);
}

static void close_quick(struct ct_quick *q) {
    ct_site_groups_free(&q->groups);
    ct_call_sites_free(&q->sites);
    ct_recorder_notes_free(&q->notes);
    ct_trace_close(&q->trace);
}

int ct_summary_quick(const struct ct_arguments *o, const struct ct_terminal *terminal,
                     const char *path, int in_list) {
    struct ct_quick *q = ct_heap_alloc_zeroed(1, sizeof *q);
    struct ct_error error;
    int status;
    if (open_headers(q, o, terminal, path, &error)) {
        ct_terminal_warn(error.text);
        fputs(in_list ? "null" : "", stdout);
        status = (int)error.status;
        ct_trace_close(&q->trace);
    } else {
        read_notes(q);
        if (o->json)
            ct_summary_quick_print_json(q);
        else
            print_text(q);
        status = q->trace.incomplete || !q->is_whole ? CT_EXIT_INCOMPLETE : CT_EXIT_OK;
        close_quick(q);
    }
    free(q);
    return status;
}

// ---- before the answer --------------------------------------------------------------------------

static int asks_for_all(const struct ct_arguments *o) {
    return !o->json && o->device < 0 && !o->capacity && o->from.kind == CT_TIME_NONE &&
           o->to.kind == CT_TIME_NONE && o->at.kind == CT_TIME_NONE && !o->at_end;
}

// For tests (QUICK.md), which have no trace that takes a second.
static int is_long(const struct ct_quick *q) {
    const char *when = getenv("CUTRACE_REPORT_HEADLINE");
    return q->estimate_ns >= SECOND || (when && strcmp(when, "always") == 0);
}

// A line that does not fit is left out: a figure that is cut is another one.
static void show_line(const struct ct_terminal *terminal, const char *line) {
    if (ct_utf8_columns(line) < terminal->width)
        ct_progress_show_headline(line);
}

static void show_peak(const struct ct_quick *q) {
    const struct ct_noted_device *d = &q->notes.device[q->main];
    char line[200];
    (void)snprintf(line, sizeof line,
                   "by the recorder's notes: %s had %s%s allocated at the peak, first at %s",
                   ct_label_device(q->main).text, at_least(d->peak_is_exact),
                   ct_label_size(&q->view, d->peak_bytes).text,
                   ct_label_time(&q->view, d->peak_ns).text);
    show_line(q->view.terminal, line);
}

static void show_rest(const struct ct_quick *q) {
    char line[200];
    (void)snprintf(line, sizeof line,
                   "%s failed request%s noted; reading %s events, about %" PRIu64 " s",
                   q->notes.failed ? ct_human_count(q->notes.failed).text : "no",
                   ct_human_plural(q->notes.failed), ct_human_count(q->trace.events).text,
                   q->estimate_ns / SECOND);
    show_line(q->view.terminal, line);
}

void ct_summary_quick_show_headline(const struct ct_arguments *o,
                                    const struct ct_terminal *terminal, const char *path) {
    struct ct_quick *q;
    struct ct_error error;
    if (!terminal->is_terminal || !asks_for_all(o) || strcmp(path, "-") == 0)
        return;
    q = ct_heap_alloc_zeroed(1, sizeof *q);
    if (!open_headers(q, o, terminal, path, &error) && is_long(q)) {
        read_notes(q);
        if (q->main >= 0 && q->notes.device[q->main].has_peak) {
            show_peak(q);
            show_rest(q);
        }
    }
    close_quick(q);
    free(q);
}

// SPDX-License-Identifier: Apache-2.0
// Describes the gaps and the end of a trace.
#include "print/trace_state.h"

#include <cutrace/format/journal.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "base/utf8.h"
#include "print/label.h"

int ct_trace_state_estimate(const struct ct_trace *t, char *to, size_t size) {
    const struct ct_string *sample = ct_definitions_info(&t->definitions, "option.SAMPLE"),
                           *least = ct_definitions_info(&t->definitions, "option.MIN_SIZE");
    char n[40], bytes[40];
    if (!sample && !least)
        return 0;
    size_t at = (size_t)snprintf(to, size, "an estimate: ");
    if (sample) {
        ct_utf8_sanitize(n, sizeof n, sample->at, sample->length);
        at += (size_t)snprintf(to + at, size - at,
                               "one allocation in %s was recorded (CUTRACE_SAMPLE=%s): multiply "
                               "what is allocated by %s%s",
                               n, n, n, least ? "; " : "");
    }
    if (least) {
        ct_utf8_sanitize(bytes, sizeof bytes, least->at, least->length);
        (void)snprintf(to + at, size - at,
                       "smaller allocations were not recorded (CUTRACE_MIN_SIZE=%s)", bytes);
    }
    return 1;
}

void ct_trace_state_print_estimate(struct ct_view *v) {
    char text[400];
    if (ct_trace_state_estimate(v->trace, text, sizeof text))
        fprintf(v->out, "%s%s%s\n", v->terminal->bold, text, v->terminal->reset);
}

// Why events before the first one are not there: a ring file, or a copy of a part, or both.
static const char *describe_overwriting(const struct ct_trace *t) {
    if (!t->trimmed_before)
        return "overwritten";
    return t->trimmed_before < t->overwritten_events ? "overwritten or left out of this copy"
                                                     : "left out of this copy";
}

int ct_trace_state_print_overwritten(struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    const struct ct_index_chunk *first = &t->index.chunks[0], *from = first;
    const char *gone = describe_overwriting(t);
    if (!t->overwritten_events && first->head.seq == 0)
        return 0;
    if (!(first->head.flags & CT_CHUNK_RESTART) && first->head.seq) {
        fputs("the beginning was overwritten", v->out);
        return 1;
    }
    for (size_t i = 0; i < t->index.count; i++)
        if (t->index.chunks[i].overwritten)
            from = &t->index.chunks[i];
    if (first->head.first_event == 0 || from != first)
        fprintf(v->out, "%s of the events before %" PRIu64 " were %s",
                ct_human_count(t->overwritten_events).text, from->head.first_event, gone);
    else
        fprintf(v->out, "events 0 to %" PRIu64 " were %s", t->overwritten_events - 1, gone);
    if (!t->trimmed_before)
        fprintf(v->out, " (the file is a ring of %s)", ct_label_size(v, t->source.bytes).text);
    if (t->exact)
        fprintf(v->out, ", exact from %s on", ct_label_time(v, t->exact_from_ns).text);
    else
        fputs(", what was live then is not fully known", v->out);
    return 1;
}

const char *ct_trace_state_missing(const struct ct_trace *t) {
    if (!t->incomplete)
        return NULL;
    if (t->trimmed_after)
        return "trimmed";
    if (t->end_was_missing)
        return "was_missing";
    if (t->index.cut)
        return "cut";
    if (strcmp(t->source.name, "-") == 0)
        return "standard_input";
    if (t->no_journal)
        return "journal_not_read";
    return t->journal_found ? "journal_unusable" : "journal_missing";
}

int ct_trace_state_is_unknown(const struct ct_trace *t) {
    return t->incomplete && !t->events;
}

struct ct_human_text ct_trace_state_until(const struct ct_view *v) {
    if (!v->trace->incomplete)
        return (struct ct_human_text){""};
    return ct_human_format(" up to %.30s", ct_label_time(v, v->trace->t_last_ns).text);
}

// Whether the coarse history covers all that was overwritten, and has no failed call. (A part that
// was copied has a history of what came before it, not of what is missing in its midst.)
static int is_history_quiet(const struct ct_trace *t) {
    if (!ct_coarse_history_exists(t) || t->history_before < t->overwritten_before)
        return 0;
    for (int d = 0; d < CT_DEVICES; d++)
        if (ct_coarse_history_summarize(t, d).ooms)
            return 0;
    return 1;
}

const char *ct_trace_state_as_far(const struct ct_trace *t, uint64_t counted) {
    const int has_beginning = !t->overwritten_events && t->index.chunks[0].head.seq == 0;
    const int is_lost = ct_trace_count_lost(t, counted) || t->index.damages || t->index.missing;
    return is_lost || !(has_beginning || is_history_quiet(t)) ? ", as far as the trace goes" : "";
}

void ct_trace_state_print_unallocated(struct ct_view *v, uint64_t counted) {
    fprintf(v->out, "No GPU memory was allocated%s%s\n", ct_trace_state_until(v).text,
            ct_trace_state_as_far(v->trace, counted));
}

static void print_name(struct ct_view *v) {
    const char *name = v->trace->source.name;
    ct_utf8_print_sanitized(v->out, name, strlen(name));
}

// How to get what is missing.
static void print_remedy(struct ct_view *v, const char *missing) {
    if (strcmp(missing, "cut") == 0) {
        fprintf(v->out, "the file is cut at offset %" PRIu64 "; get the whole file",
                v->trace->index.cut_at);
        return;
    }
    if (strcmp(missing, "trimmed") == 0) {
        fputs("this is a part of a trace; ask for the whole one", v->out);
        return;
    }
    if (strcmp(missing, "was_missing") == 0) {
        fputs("the trace that this is a copy of had no end; look for it and its journal", v->out);
        return;
    }
    if (strcmp(missing, "standard_input") == 0) {
        fputs("standard input has no journal; name the file", v->out);
        return;
    }
    print_name(v);
    if (strcmp(missing, "journal_not_read") == 0)
        fputs(CT_JOURNAL_SUFFIX " was not read; omit --no-journal", v->out);
    else if (strcmp(missing, "journal_unusable") == 0)
        fputs(CT_JOURNAL_SUFFIX " cannot be used", v->out);
    else
        fputs(CT_JOURNAL_SUFFIX " is not here; put it beside the trace", v->out);
}

void ct_trace_state_print_incomplete(struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    const char *missing = ct_trace_state_missing(t);
    if (!missing)
        return;
    fprintf(v->out, "%sINCOMPLETE: no clean end, ", v->terminal->bold);
    if (t->events)
        fprintf(v->out,
                "and what happened after %s is unknown: ", ct_label_time(v, t->t_last_ns).text);
    else
        fputs("no event, and nothing is known of GPU memory: ", v->out);
    print_remedy(v, missing);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

void ct_trace_state_print_gap(struct ct_view *v) {
    struct ct_trace_gap gap;
    if (!v->in_gap_ns || !ct_trace_find_gap(v->trace, v->in_gap_ns, &gap))
        return;
    fprintf(v->out, "%sNOT KNOWN: what was live at %s, because events are missing",
            v->terminal->bold, ct_label_time(v, v->in_gap_ns).text);
    if (gap.from_ns)
        fprintf(v->out, " after %s", ct_label_time(v, gap.from_ns).text);
    if (gap.known_ns != UINT64_MAX)
        fprintf(v->out, "%s %s", gap.from_ns ? "; it is known again from" : " before",
                ct_label_time(v, gap.known_ns).text);
    if (gap.from_ns && v->in_gap_ns < gap.next_ns)
        fprintf(v->out, ". This is as of %s", ct_label_time(v, gap.from_ns).text);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

struct ct_trace_state_doubt ct_trace_state_doubt(const struct ct_view *v, uint64_t t_ns) {
    struct ct_trace_state_doubt doubt = {""};
    struct ct_trace_gap gap;
    if (v->in_gap_ns || !ct_trace_find_gap(v->trace, t_ns, &gap))
        return doubt;
    if (gap.from_ns)
        (void)snprintf(doubt.text, sizeof doubt.text, " (not known: events are missing after %s)",
                       ct_label_time(v, gap.from_ns).text);
    else
        (void)snprintf(doubt.text, sizeof doubt.text, " (not known: events before it are missing)");
    return doubt;
}

void ct_trace_state_print_trimmed(struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    if (!t->trimmed_before && !t->trimmed_after)
        return;
    fprintf(v->out, "%sPART of a trace: %s before", v->terminal->bold,
            ct_human_counted(t->trimmed_before, "of its event").text);
    fprintf(v->out, " %s and ", ct_label_time(v, t->t_first_ns).text);
    fprintf(v->out, "%s after %s were left out", ct_human_count(t->trimmed_after).text,
            ct_label_time(v, t->t_last_ns).text);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

const char *ct_trace_state_end(const struct ct_trace *t) {
    if (t->ended)
        return NULL;
    if (t->running)
        return "still recording";
    return t->sealed ? "the process was killed" : "killed, or still running";
}

// Prints what is missing from a trace that is not complete, separated by commas.
static void print_missing(struct ct_view *v, uint64_t lost, const char *unclean, const char *end) {
    const struct ct_trace *t = v->trace;
    const char *comma = "";
    if (ct_trace_state_print_overwritten(v))
        comma = ", ";
    if (lost) {
        fprintf(v->out, "%s%s lost", comma, ct_human_counted(lost, "event").text);
        comma = ", ";
    }
    if (t->index.damages) {
        fprintf(v->out, "%sdamaged at offset %" PRIu64, comma, t->index.damage[0].offset);
        comma = ", ";
    }
    if (t->torn) {
        fprintf(v->out, "%s%" PRIu64 " event%s being recorded when the process died", comma,
                t->torn, t->torn == 1 ? " was" : "s were");
        comma = ", ";
    }
    if (end)
        fprintf(v->out, "%s%s%s", comma, unclean, end);
}

void ct_trace_state_print_line(struct ct_view *v, const struct ct_scan *s) {
    ct_trace_state_print_line_with(v, s->lost);
}

void ct_trace_state_print_line_with(struct ct_view *v, uint64_t counted) {
    const struct ct_trace *t = v->trace;
    const uint64_t lost = ct_trace_count_lost(v->trace, counted);
    const char *end = ct_trace_state_end(t);
    const char *unclean = end && !t->running ? "no clean end: " : "";
    fprintf(v->out, "trace: %s", ct_human_counted(t->events, "event").text);
    if (t->events) // by the clock that every other time has
        fprintf(v->out, ", %s to %s", ct_label_time(v, t->t_first_ns).text,
                ct_label_time(v, t->t_last_ns).text);
    fputs("; ", v->out);
    if (ct_trace_has_every_event(t, lost))
        fprintf(v->out, "complete%s%s%s", end ? "; " : "", unclean, end ? end : "");
    else {
        fputs(v->terminal->bold, v->out);
        print_missing(v, lost, unclean, end);
        fputs(v->terminal->reset, v->out);
    }
    uint64_t status = 0;
    if (ct_definitions_info_number(&t->definitions, "process.exit_status", &status) && status)
        fprintf(v->out, "; exit status %" PRIu64, status);
    const struct ct_string *driver = ct_definitions_info(&t->definitions, "nvidia.driver_version");
    if (driver) {
        fputs("; driver ", v->out);
        ct_utf8_print_sanitized(v->out, driver->at, driver->length < 40 ? driver->length : 40);
    }
    putc('\n', v->out);
}

// ---- what a report leaves out -------------------------------------------------------------------

int ct_coverage_limits_write(const struct ct_view *v, uint64_t lost, char *to) {
    struct ct_coverage c;
    ct_coverage_read(&c, v->trace);
    const int is_limited = ct_coverage_limits(&c, lost, to);
    ct_coverage_free(&c);
    return is_limited;
}

void ct_coverage_limits_print(struct ct_view *v, uint64_t lost) {
    char text[CT_COVERAGE_LIMITS];
    (void)ct_coverage_limits_write(v, lost, text);
    fprintf(v->out, "limits: %s\n", text);
}

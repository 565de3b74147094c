// SPDX-License-Identifier: Apache-2.0
// How complete a trace is, as text: sampled, overwritten, cut off, killed.
#ifndef CT_TRACE_STATE_H
#define CT_TRACE_STATE_H

#include "analyze/coverage.h"
#include "answer/view.h"

// Where options left out allocations: what that means for the figures. Returns 0 if all were
// recorded.
int ct_trace_state_estimate(const struct ct_trace *t, char *to, size_t size);
// Prints that as a line, or nothing.
void ct_trace_state_print_estimate(struct ct_view *v);
// Prints "events 0 to 99 were overwritten (the file is a ring of 16.00 MiB), exact from +3.000 s
// on". Returns 0 and prints nothing if none was.
int ct_trace_state_print_overwritten(struct ct_view *v);
// Why the end of an incomplete trace is missing, as JSON has it: "cut", "standard_input",
// "journal_not_read" (--no-journal), "journal_unusable", "journal_missing", "trimmed",
// "was_missing" (it is a copy of an incomplete one). NULL: it is not.
const char *ct_trace_state_missing(const struct ct_trace *t);
// Prints that as the line INCOMPLETE, with what is missing, since when, and how to get it; or
// nothing.
void ct_trace_state_print_incomplete(struct ct_view *v);
// Prints that the moment asked for lies in a gap of the events as the line NOT KNOWN, with what the
// view shows instead, or nothing.
void ct_trace_state_print_gap(struct ct_view *v);
// " (not known: events are missing after +4.200 s)" where what was live at the time is not known
// and that line does not say it, else "": for the time of a figure that the events alone have.
struct ct_trace_state_doubt {
    char text[100];
};
struct ct_trace_state_doubt ct_trace_state_doubt(const struct ct_view *v, uint64_t t_ns);
// Prints that the trace is a part of another one as the line PART, or nothing.
void ct_trace_state_print_trimmed(struct ct_view *v);
// " up to +4.200 s" if the trace is incomplete, else "": for statements that something did not
// happen.
struct ct_human_text ct_trace_state_until(const struct ct_view *v);
// ", as far as the trace goes" where events within its time are missing, else "": for statements
// that something did not happen. `counted`: as of ct_trace_count_lost.
const char *ct_trace_state_as_far(const struct ct_trace *t, uint64_t counted);
// Prints that no GPU memory was allocated, with both of these.
void ct_trace_state_print_unallocated(struct ct_view *v, uint64_t counted);
// Whether the trace is incomplete and has no event: no question about memory has an answer.
int ct_trace_state_is_unknown(const struct ct_trace *t);
// How the recording ended, or NULL if it ended well.
const char *ct_trace_state_end(const struct ct_trace *t);
// Prints the line that says whether the trace is complete.
void ct_trace_state_print_line(struct ct_view *v, const struct ct_scan *s);
// The same for a view without a scan. `counted`: lost events by the LOST events of the range.
void ct_trace_state_print_line_with(struct ct_view *v, uint64_t counted);

// The sentence that says what a report leaves out (analyze/coverage.h), the same in every view.

// Writes it to `to`, which has CT_COVERAGE_LIMITS bytes. `lost`: events that are lost. Returns
// whether something is left out, as far as is known.
int ct_coverage_limits_write(const struct ct_view *v, uint64_t lost, char *to);
// Prints the line "limits: ...".
void ct_coverage_limits_print(struct ct_view *v, uint64_t lost);

#endif

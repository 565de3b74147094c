// SPDX-License-Identifier: Apache-2.0
// What the commands that write a copy of a trace, or another file of one, have in common.
#ifndef CT_NEW_TRACE_H
#define CT_NEW_TRACE_H

#include "answer/view.h"
#include "copy/copy_trace.h"
#include "copy/scrub.h"
#include "symbols/source_locations.h"

// Checks an output for a trace: it is named, is not this trace, replaces nothing without --force.
int ct_new_trace_check_output(const char *trace, const struct ct_arguments *o,
                              struct ct_error *error);
// Checks that a copy can be made: the output, and that the trace has all that it will ever have.
int ct_new_trace_check(const struct ct_view *v, struct ct_error *error);
// The second of these alone.
int ct_new_trace_check_end(const struct ct_view *v, struct ct_error *error);
// Sets the range of the request to so much time on both sides of the OOM that crossed capacity,
// else of the peak. -1: there is neither.
int ct_new_trace_around(struct ct_view *v, uint64_t around_ns, struct ct_copy_request *request);
// Sets the range of the request to the view's, and looks up source lines if they are asked for. 0,
// or -1 with an error.
int ct_new_trace_prepare(struct ct_view *v, struct ct_copy_request *request,
                         struct ct_source_locations *lines, struct ct_error *error);
// A copy in memory, without names that the scrub replaces (NULL: with all of them). What is written
// is read again: a copy in which a name is left is no copy.
struct ct_memory_copy {
    int fd; // -1: none
    uint64_t bytes;
    struct ct_copied copied;
};
int ct_new_trace_in_memory(struct ct_trace *t, struct ct_copy_request *request,
                           struct ct_scrub *scrub, struct ct_memory_copy *copy,
                           struct ct_error *error);
void ct_new_trace_close(struct ct_memory_copy *copy);

// Sets `to` to --output, else to the name of the trace without its folder, with another ending
// (".pickle") in place of ".zst": a file in the working directory. Returns 0, or -1 with an error:
// it exists and --force was not given, or the trace is standard input and has no name.
int ct_output_name(const struct ct_arguments *o, const char *trace, const char *ending, char *to,
                   size_t size, struct ct_error *error);

#endif

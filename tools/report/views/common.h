// SPDX-License-Identifier: Apache-2.0
// Parts that several views have in common, as text and as JSON.
#ifndef CT_PARTS_H
#define CT_PARTS_H

#include "analyze/capacity.h"
#include "analyze/oom_reason.h"
#include "analyze/site_groups.h"
#include "views/views.h"

// Text that is cut at the terminal's width (never when piped); `column` is where it begins.
void ct_print_label(struct ct_view *v, const char *label, size_t column);
struct ct_human_text ct_label_time(const struct ct_view *v, uint64_t t_ns); // "+312.400 s"
struct ct_human_text ct_label_size(const struct ct_view *v, uint64_t bytes);
struct ct_human_text ct_label_device(int device); // "GPU 0", "GPU ?"
// The wall clock at a time of the events, or "" if the trace does not tell.
struct ct_human_text ct_label_wall_clock(const struct ct_view *v, uint64_t t_ns);
void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size);
// "a <- b <- c": the asker and its callers, at most `most`.
void ct_print_callers(struct ct_view *v, uint32_t stack, unsigned most, size_t column);
// The same, a line each.
void ct_print_stack(struct ct_view *v, uint32_t stack, unsigned most, size_t column);
// One sentence, without a newline.
void ct_print_oom_reason(struct ct_view *v, const struct ct_refusal *r, const struct ct_oom_reason *verdict);
void ct_print_site_groups(struct ct_view *v, const struct ct_site_groups *g, uint64_t whole, unsigned rows);

enum { CT_POINTS = 60 }; // of the pools' curves

struct ct_scan_request ct_view_scan_request(const struct ct_view *v);
// The same for a view that looks at PyTorch's blocks.
struct ct_scan_request ct_view_scan_request_pools(const struct ct_view *v);
// The scan that a view begins with; says so if it saw nothing of the device that was asked for.
void ct_view_scan_run(const struct ct_view *v, struct ct_scan *s,
                  const struct ct_scan_request *request);
uint64_t ct_view_scan_lost_events(const struct ct_view *v, const struct ct_scan *s);
// The only device that was seen, or the one asked for, or the one with the highest peak; -1 if none.
int ct_view_scan_main_device(const struct ct_view *v, const struct ct_scan *s);
// Where not everything was recorded on purpose: what that means for the figures. 0: everything was.
int ct_trace_state_estimate(const struct ct_trace *t, char *to, size_t size);
// The same as a line, or nothing.
void ct_trace_state_print_estimate(struct ct_view *v);
// "events 0 to 99 were overwritten (the file is a ring of 16.00 MiB), exact from +3.000 s on"; 0: nothing was.
int ct_trace_state_print_overwritten(struct ct_view *v);
// "1 event was being recorded when the process died"; 0: none was.
int ct_trace_state_print_torn(struct ct_view *v);
// How the recording ended, if not well: as a text, or NULL.
const char *ct_trace_state_end(const struct ct_trace *t);
// One line: whether the trace is whole.
void ct_trace_state_print_line(struct ct_view *v, const struct ct_scan *s);

void ct_document_begin(struct ct_json *j,
                  const struct ct_view *v); // opens the document: schema, trace, process
void ct_document_add_trace(struct ct_json *j, const struct ct_view *v, const struct ct_scan *s);
// What became of the events: keys of `trace`, and of the views without it.
void ct_document_add_recording(struct ct_json *j, const struct ct_trace *t);
void ct_document_add_oom(struct ct_json *j, struct ct_view *v, const char *key,
                     const struct ct_refusal *r, int budget);
void ct_document_add_device(struct ct_json *j, const char *key, int device);
void ct_document_add_capacity(struct ct_json *j, const struct ct_capacity *c);
void ct_document_add_memory(struct ct_json *j, const char *key, const struct ct_breakdown *s);

#endif

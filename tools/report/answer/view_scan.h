// SPDX-License-Identifier: Apache-2.0
// The scan of the trace that most views begin with.
#ifndef CT_VIEW_SCAN_H
#define CT_VIEW_SCAN_H

#include "answer/view.h"
#include "question/question.h"

enum { CT_VIEW_CURVE_POINTS = 60 }; // of the pools' curves

struct ct_scan_request ct_view_scan_request(const struct ct_view *v);
// The same for a view that analyses PyTorch's blocks.
struct ct_scan_request ct_view_scan_request_pools(const struct ct_view *v);
// Scans the trace (ct_question_scan); warns if it has no event of the device that --device names.
void ct_view_scan_run(const struct ct_view *v, struct ct_scan *s,
                      const struct ct_scan_request *request, const struct ct_listener *beside);
// Returns 0, or -1 with `error` set (CT_EXIT_USAGE) if the trace does not have the device that
// --device names: neither its size nor an event of it.
int ct_view_scan_check_device(const struct ct_view *v, struct ct_error *error);
// Where no event is of the device that --device names, says so.
void ct_view_scan_warn_device(const struct ct_view *v, const struct ct_scan *s);
// The device of --device, or else the one with the highest peak; -1 if none was seen.
int ct_view_scan_main_device(const struct ct_view *v, const struct ct_scan *s);
int ct_view_scan_is_moment_asked(const struct ct_arguments *o); // by --at
// The kind of moment that --at asks for; `usual`: without it.
enum ct_moment_kind ct_view_scan_wanted_moment(const struct ct_arguments *o,
                                               enum ct_moment_kind usual);
// The moment of --at, or else the usual one, on the main device; where the trace has none of that
// kind, the next one that ct_moment_find has, with a warning if --at asks for it.
struct ct_moment ct_view_scan_find_moment(const struct ct_view *v, const struct ct_scan *s,
                                          enum ct_moment_kind usual);
// The moment that --at asks for, of a view that describes a period: warns if there is none. `s`: a
// scan of the range, or NULL; then one is run where it is needed.
struct ct_moment ct_view_scan_asked_moment(const struct ct_view *v, const struct ct_scan *s);

#endif

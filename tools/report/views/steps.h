// SPDX-License-Identifier: Apache-2.0
// Views in steps, for callers that share their passes or print them as text and JSON.
#ifndef CT_VIEW_STEPS_H
#define CT_VIEW_STEPS_H

#include "analyze/coverage.h"
#include "analyze/phase_times.h"
#include "analyze/untracked_curve.h"
#include "answer/summary_read.h"
#include "answer/view.h"
#include "answer/view_scan.h"
#include "base/json.h"
#include "layout/address_layout.h"
#include "replay/replay.h"
#include "sites/leaks.h"

// frag.

struct ct_frag_shown;

enum { CT_FRAG_TEXT = 1, CT_FRAG_JSON = 2 };

// The scan is one of the view's range with PyTorch's pools and without a budget. `forms`: those
// that it will be printed in. View, scan and pass must stay until it is freed.
struct ct_frag_shown *ct_frag_begin(const struct ct_view *v, const struct ct_scan *s,
                                    unsigned forms);
// Hears a pass: the scan or a later one.
struct ct_listener ct_frag_listener(struct ct_frag_shown *f);
// When the scan has run: chooses the requests that are named. What obstructed them is found by the
// pass, if that one has not run yet, else on the way to the moment.
void ct_frag_read_scan(struct ct_frag_shown *f);
// When the pass has run: chooses the moment, and replays the trace up to it if it is not the end.
void ct_frag_go_to_moment(struct ct_frag_shown *f);
// Prints text or JSON, as the options of this view say.
void ct_frag_print(const struct ct_frag_shown *f, struct ct_view *v);
void ct_frag_free(struct ct_frag_shown *f);

// How addresses lie, as lines and as keys.
void ct_frag_print_layout(struct ct_view *v, const struct ct_address_layout *f);
void ct_frag_add_layout(struct ct_json *j, const struct ct_address_layout *f);

// leaks.

struct ct_leaks_shown;

// Joins the first of two passes. The scan is one of the view's range; its replay may be released.
// View and scan must stay until it is freed.
struct ct_leaks_shown *ct_leaks_shown_join_first(struct ct_listeners *to, const struct ct_view *v,
                                                 const struct ct_scan *s);
// When that has run: joins the second one.
void ct_leaks_shown_join_second(struct ct_listeners *to, struct ct_leaks_shown *l);
// When that has run.
void ct_leaks_shown_finish(struct ct_leaks_shown *l);
// Prints text or JSON, as the options of this view say.
void ct_leaks_shown_print(const struct ct_leaks_shown *l, struct ct_view *v);
void ct_leaks_shown_free(struct ct_leaks_shown *l);

// phases.

struct ct_phase_times_request ct_phases_request(const struct ct_view *v);
// Prints text or JSON, as the options of this view say.
void ct_phases_print(const struct ct_phase_times *p, struct ct_view *v);

// info.

struct ct_integrity;

// Prints what the trace says of its process and its devices.
void ct_info_print_facts(struct ct_view *v);
// Prints the document. `share`: after its pass; `integrity` may be NULL: it was not looked at.
void ct_info_print_json(struct ct_view *v, const struct ct_untracked_share *share,
                        const struct ct_integrity *integrity, uint64_t lost);

// coverage: what the recorder heard, what it did not see, and how much of the devices' memory
// nothing explains.

void ct_coverage_print_facts(struct ct_view *v, const struct ct_coverage *c);
void ct_coverage_print_share(struct ct_view *v, const struct ct_untracked_share *share);
// Adds it as the value of "coverage". `limits`: the sentence of print/trace_state.h.
void ct_coverage_add_json(struct ct_json *j, const char *limits, const struct ct_coverage *c,
                          const struct ct_untracked_share *share);

// summary.

void ct_summary_print_json(struct ct_summary *s);

#endif

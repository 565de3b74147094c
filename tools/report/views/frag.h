// SPDX-License-Identifier: Apache-2.0
// The view frag in steps, for callers that share its pass or print it as text and JSON.
#ifndef CT_VIEW_FRAG_H
#define CT_VIEW_FRAG_H

#include "answer/view_scan.h"
#include "base/json.h"
#include "layout/address_layout.h"
#include "replay/replay.h"

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

#endif

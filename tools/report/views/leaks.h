// SPDX-License-Identifier: Apache-2.0
// The view leaks in steps, for callers that share its passes or print it as text and JSON.
#ifndef CT_VIEW_LEAKS_H
#define CT_VIEW_LEAKS_H

#include "answer/view_scan.h"
#include "sites/leaks.h"

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

#endif

// SPDX-License-Identifier: Apache-2.0
// The steps that a scan consists of (scan_run.c), of a whole trace or of parts of it.
#ifndef CT_SCAN_STEPS_H
#define CT_SCAN_STEPS_H

#include "analyze/scan.h"

// Whether an event is after the last one of the range.
static inline int ct_scan_is_behind(const struct ct_scan_request *q, const struct ct_event *e,
                                    uint64_t number) {
    return e->t_ns > q->to_ns || (q->end_event && number >= q->end_event);
}

// The begin; before each event is read, and then that event; after the last one.
void ct_scan_begin(struct ct_scan *s, const struct ct_trace *t,
                   const struct ct_scan_request *request);
void ct_scan_expect(struct ct_scan *s);
void ct_scan_take(struct ct_scan *s, const struct ct_trace *t, const struct ct_event *e,
                  uint64_t number);
void ct_scan_end(struct ct_scan *s, struct ct_trace *t);

// Before a part's first event of its own, which is of that time: what was found while it warmed up
// belongs to the part before.
void ct_scan_begin_part(struct ct_scan *s, uint64_t t_ns);
// Behind the last event of a part: what is shown up to the first event of the next one.
void ct_scan_end_part(struct ct_scan *s, const struct ct_scan *next, uint64_t t_ns);
// Adds what an earlier part had in a column to the column.
void ct_scan_add_column(struct ct_plot_column *c, const struct ct_plot_column *before);
// Adds a part in which no request failed to the next one, which begins at the seam. Both are sound.
// Returns 0 if the trace has to be read as a whole.
int ct_scan_prepend(struct ct_scan *s, struct ct_scan *before, const struct ct_seam *seam);

#endif

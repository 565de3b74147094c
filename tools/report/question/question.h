// SPDX-License-Identifier: Apache-2.0
// What a view asks of a trace: a scan of a range, and the state at a moment. Each is one pass.
#ifndef CT_QUESTION_H
#define CT_QUESTION_H

#include "analyze/moment.h"
#include "analyze/phase_times.h"
#include "question/pass.h"
#include "read/trace_part.h"

// `beside` (may be NULL) hears the events of the scan, and ends with it.
void ct_question_scan(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request,
                      const struct ct_listener *beside);

// Replays the trace up to the moment. `r` is not initialized; the caller frees it. `sharing`
// (empty; may be NULL) notes exports. `beside` (may be NULL) hears the events up to the moment.
void ct_question_moment(struct ct_replay *r, const struct ct_moment *m, struct ct_trace *t,
                        struct ct_sharing *sharing, const struct ct_listener *beside);
// Reads what is live just before an event. The caller frees `to`.
void ct_question_before(struct ct_live_totals *to, struct ct_trace *t, uint64_t event, int device);
// The state at a moment, after a scan that follows PyTorch's blocks; NULL: the moment is the peak,
// of which the scan has the totals. `r`: not initialized; it replays the trace if the scan does not
// have the state.
const struct ct_replay *ct_question_state(const struct ct_moment *m, const struct ct_scan *s,
                                          struct ct_trace *t, struct ct_replay *r);

// Two passes where a start-up has to be found.
void ct_question_phases(struct ct_phase_times *p, struct ct_trace *t,
                        const struct ct_phase_times_request *request);

// What is live at a moment, by the part of a trace that shows it: no scan comes first.

struct ct_moment_part {
    struct ct_trace_part part;
    struct ct_moment moment; // of an event: t_ns is UINT64_MAX until that is replayed
    struct ct_replay state;  // if the part is known
    uint64_t replayed;       // events after the checkpoint, or from the start
};

// Reads what the part needs of the trace, of which ct_trace_headers_open and
// ct_trace_headers_read_facts have read the rest. Definitions do not change afterwards.
void ct_moment_part_read(struct ct_moment_part *p, struct ct_trace *t,
                         const struct ct_moment *moment);
// Then replays it. Sets `part.unknown` if that fails.
void ct_moment_part_replay(struct ct_moment_part *p, struct ct_trace *t);
// Whether something of a device is live or asleep then.
int ct_moment_part_has(const struct ct_moment_part *p, int device);
void ct_moment_part_free(struct ct_moment_part *p);

#endif

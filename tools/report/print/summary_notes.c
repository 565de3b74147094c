// SPDX-License-Identifier: Apache-2.0
#include "print/summary_notes.h"

static void note_event(void *notes, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct ct_summary_notes *n = notes;
    (void)number;
    const int device = ct_event_device_index(e);
    ct_untracked_curve_note(&n->untracked[device], r, device, e);
    ct_neighbours_note(&n->neighbours, r, e);
    if (n->start_up)
        ct_phase_start_up_note(n->start_up, r, e);
}

void ct_summary_notes_begin(struct ct_summary_notes *n, const struct ct_trace *t,
                            struct ct_phase_start_up *u) {
    *n = (struct ct_summary_notes){.start_up = u};
    for (int d = 0; d < CT_DEVICES; d++)
        ct_untracked_curve_begin(&n->untracked[d], t, d);
}

void ct_summary_notes_request(struct ct_summary_notes *n, struct ct_scan_request *q) {
    q->applied = note_event;
    q->applied_user = n;
}

void ct_summary_notes_free(struct ct_summary_notes *n) {
    ct_neighbours_free(&n->neighbours);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_untracked_curve_free(&n->untracked[d]);
}

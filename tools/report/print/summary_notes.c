// SPDX-License-Identifier: Apache-2.0
#include "print/summary_notes.h"

#include "base/heap.h"

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

// ---- parts of a trace ---------------------------------------------------------------------------

static void *begin_part(const void *notes) {
    const struct ct_summary_notes *first = notes;
    struct ct_summary_notes *n = ct_heap_alloc_zeroed(1, sizeof *n);
    n->trace = first->trace;
    ct_neighbours_begin_part(&n->neighbours);
    for (int d = 0; d < CT_DEVICES; d++)
        n->untracked[d].is_of_part = 1;
    return n;
}

static int append_part(void *notes, const void *next) {
    struct ct_summary_notes *n = notes;
    const struct ct_summary_notes *more = next;
    for (int d = 0; d < CT_DEVICES; d++)
        if (!ct_untracked_curve_append(&n->untracked[d], &more->untracked[d]))
            return 0;
    return ct_neighbours_append(&n->neighbours, &more->neighbours);
}

static void begin_again(void *notes) {
    struct ct_summary_notes *n = notes;
    const struct ct_trace *t = n->trace;
    ct_summary_notes_free(n);
    ct_summary_notes_begin(n, t, NULL);
}

static void free_part(void *notes) {
    ct_summary_notes_free(notes);
    free(notes);
}

// ---- interface ----------------------------------------------------------------------------------

void ct_summary_notes_begin(struct ct_summary_notes *n, const struct ct_trace *t,
                            struct ct_phase_start_up *u) {
    *n = (struct ct_summary_notes){.trace = t, .start_up = u};
    for (int d = 0; d < CT_DEVICES; d++)
        ct_untracked_curve_begin(&n->untracked[d], t, d);
}

void ct_summary_notes_request(struct ct_summary_notes *n, struct ct_scan_request *q) {
    static const struct ct_scan_division division = {begin_part, append_part, begin_again,
                                                     free_part};
    q->applied = note_event;
    q->applied_user = n;
    q->division = n->start_up ? NULL : &division; // phases need all events in their order
}

void ct_summary_notes_free(struct ct_summary_notes *n) {
    ct_neighbours_free(&n->neighbours);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_untracked_curve_free(&n->untracked[d]);
}

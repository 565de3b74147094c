// SPDX-License-Identifier: Apache-2.0
// Views with --quick.
#ifndef CT_VIEW_QUICK_H
#define CT_VIEW_QUICK_H

#include "answer/view.h"
#include "question/question.h"
#include "read/recorder_notes.h"
#include "sites/site_groups.h"

// summary: a first screen of the recorder's own figures. No event is read.

// What the recorder noted of a trace, with the names that cost little.
struct ct_quick {
    struct ct_trace trace;
    struct ct_call_sites sites;
    struct ct_view view;
    struct ct_recorder_notes notes;
    int is_whole;   // counts are those of all events
    int main;       // the device with the highest peak, -1: none
    int has_gained; // groups: all that call sites gained; else the least that they took
    struct ct_site_groups groups;
    uint64_t in_groups;   // their bytes
    uint64_t estimate_ns; // about how long a pass over all events takes
    size_t unnamed;       // call sites whose names were not read
};

// Prints the screen, as text or JSON. Returns the exit status. `in_list`: as in command/report.h.
int ct_summary_quick(const struct ct_arguments *options, const struct ct_terminal *terminal,
                     const char *path, int in_list);
// While a summary reads all events for more than about a second: shows its first sentence as the
// recorder has it, on a terminal alone. It is erased with the progress.
void ct_summary_quick_show_headline(const struct ct_arguments *options,
                                    const struct ct_terminal *terminal, const char *path);

// The screen of summary --quick as JSON. JSON.md has the keys.
void ct_summary_quick_print_json(struct ct_quick *q);

// top and frag: what is live at a moment, from the recorder's nearest checkpoint. Peaks, totals and
// growth, which need all events, are not shown.

// Reads the part of the trace that the moment needs. 0, or -1 with the error set: the trace does
// not have it. In both cases ct_moment_part_free follows.
int ct_moment_quick_read(struct ct_moment_part *p, struct ct_view *v, struct ct_error *error);
// Prints text or JSON. Returns the exit status.
int ct_moment_quick_print(struct ct_moment_part *p, struct ct_view *v);

#endif

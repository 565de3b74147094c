// SPDX-License-Identifier: Apache-2.0
// What a summary notes at each event of its scan, besides what the scan itself finds.
#ifndef CT_SUMMARY_NOTES_H
#define CT_SUMMARY_NOTES_H

#include "analyze/phase_times.h"
#include "analyze/scan.h"
#include "analyze/untracked_curve.h"
#include "processes/neighbours.h"

struct ct_summary_notes {
    struct ct_neighbours neighbours; // of all devices, over time
    struct ct_untracked_curve untracked[CT_DEVICES];
    struct ct_phase_start_up *start_up; // to be found in the same pass, or NULL
};

// Begins with the coarse history of a trace. `u` may be NULL.
void ct_summary_notes_begin(struct ct_summary_notes *n, const struct ct_trace *t,
                            struct ct_phase_start_up *u);
// Makes a scan note them.
void ct_summary_notes_request(struct ct_summary_notes *n, struct ct_scan_request *q);
void ct_summary_notes_free(struct ct_summary_notes *n);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the text and the JSON of a diff are made of.
#ifndef CT_DIFF_SHOWN_H
#define CT_DIFF_SHOWN_H

#include "answer/view.h"
#include "compare/fact_differences.h"
#include "compare/match.h"

// A figure of a device that has no parts.
struct ct_diff_figure {
    const char *name, *title; // name: in JSON
    int is_count;             // else bytes
    int known[CT_SIDES];
    uint64_t value[CT_SIDES];
};

enum { CT_DIFF_FIGURES = 10 };

struct ct_diff_device {
    struct ct_compared_device side[CT_SIDES];
    struct ct_diff_figure figure[CT_DIFF_FIGURES];
    size_t figure_count;
    struct ct_site_match sites;
    struct ct_phase_match phases;
    struct ct_fact_differences facts; // of the device
};

struct ct_diff {
    struct ct_view *v[CT_SIDES];
    int is_same_trace; // two moments
    int is_unknown;    // one of them has no event, and its end is missing
    int is_usual;      // the moment was not asked for
    struct ct_compared_run run[CT_SIDES];
    struct ct_site_identity identity;
    struct ct_fact_differences facts;
    struct ct_diff_device *devices;
    size_t device_count;
};

// Whether the two sides hold the same, to the byte, and had the same figures.
int ct_diff_is_equal(const struct ct_diff_device *d);
// Whether a side knows a row of the account: where the device was not read, it knows only what is
// tracked.
int ct_diff_knows_row(const struct ct_diff_device *d, int side, unsigned row);
int ct_diff_knows_phase(const struct ct_phase_share *s);
// The rate of what a phase has allocated. 0: not known, or a side does not have the phase.
int ct_diff_phase_rate(const struct ct_phase_share *s, uint64_t *per_hour);
// When the oldest of what a phase has allocated was allocated; 0: not known.
uint64_t ct_diff_phase_oldest(const struct ct_phase_share *s);
// B less A.
static inline int64_t ct_diff_change(const uint64_t value[CT_SIDES]) {
    return (int64_t)(value[1] - value[0]);
}
// The rate of all call sites of a row. 0: of one of them, or of a side that has none, it is not
// known.
int ct_diff_row_rate(const struct ct_diff_device *d, const struct ct_site_row *r, int side,
                     uint64_t *per_hour);
// When the oldest of what a row holds was allocated; 0: not known.
uint64_t ct_diff_row_oldest(const struct ct_diff_device *d, const struct ct_site_row *r, int side);

void ct_diff_print_text(const struct ct_diff *d);
void ct_diff_print_json(const struct ct_diff *d);

#endif

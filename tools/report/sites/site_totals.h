// SPDX-License-Identifier: Apache-2.0
// What call sites hold at a moment, at the peak and at the end of a device, and what they have
// allocated in all.
#ifndef CT_SITE_TOTALS_H
#define CT_SITE_TOTALS_H

#include "analyze/scan.h"
#include "sites/site_groups.h"

// In `more` of a struct ct_site_group, whose own bytes and count are those at the moment.
enum {
    CT_SITE_PEAK_BYTES,
    CT_SITE_PEAK_COUNT,
    CT_SITE_END_BYTES,
    CT_SITE_END_COUNT,
    CT_SITE_TOTAL_BYTES,
    CT_SITE_TOTAL_COUNT,
};

struct ct_site_totals {
    enum ct_holding_rows rows;
    struct ct_site_groups groups;
    struct ct_holding *stacks; // each stack and kind once: the bytes that it has allocated in all
    size_t stack_count;
    struct ct_live_totals now; // at the moment
};

// `s`: a scan of one device. `now`: the state at the moment, NULL for the peak. The rows are by
// block if they can be at all three moments.
void ct_site_totals_build(struct ct_site_totals *t, struct ct_call_sites *sites,
                          const struct ct_scan *s, const struct ct_replay *now, int device,
                          enum ct_holding_rows rows);
void ct_site_totals_free(struct ct_site_totals *t);

#endif

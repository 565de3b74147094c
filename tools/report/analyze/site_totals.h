// SPDX-License-Identifier: Apache-2.0
// What call sites hold at the peak and at the end of a device, and what they have allocated in all.
#ifndef CT_SITE_TOTALS_H
#define CT_SITE_TOTALS_H

#include "analyze/scan.h"
#include "analyze/site_groups.h"

// In `more` of a struct ct_site_group, whose own bytes and count are those at the peak.
enum { CT_SITE_END_BYTES, CT_SITE_END_COUNT, CT_SITE_TOTAL_BYTES, CT_SITE_TOTAL_COUNT };

struct ct_site_totals {
    enum ct_holding_rows rows;
    struct ct_site_groups groups;
    struct ct_holding *stacks; // each stack and kind once: the bytes that it has allocated in all
    size_t stack_count;
};

// `s`: a scan of one device. The rows are by block if they can be both at the peak and at the end.
void ct_site_totals_build(struct ct_site_totals *t, struct ct_call_sites *sites,
                          const struct ct_scan *s, int device, enum ct_holding_rows rows);
void ct_site_totals_free(struct ct_site_totals *t);

#endif

// SPDX-License-Identifier: Apache-2.0
// The conditions of --fail-on: parsing.
#ifndef CT_FAIL_ON_H
#define CT_FAIL_ON_H

#include <stdint.h>

enum ct_fail_kind { CT_FAIL_OOM, CT_FAIL_PEAK, CT_FAIL_GROWTH, CT_FAIL_FRAG, CT_FAIL_LOST };

// The bound is exceeded by more than it: a figure that equals it is no failure.
struct ct_fail_condition {
    enum ct_fail_kind kind;
    int is_change;    // of B against A ("+"), of diff only
    int is_share;     // the bound is `share`
    uint64_t bytes;   // bound; of growth: in an hour
    uint64_t share;   // bound in hundredths of a percent
    const char *text; // as typed; no end is marked
    unsigned length;  // bytes of the text
};

enum { CT_FAIL_ON_MOST = 16 };

struct ct_fail_on {
    struct ct_fail_condition list[CT_FAIL_ON_MOST];
    unsigned count;
    char reason[200]; // why it cannot be parsed
};

// Parses "oom,peak>20GiB,growth>1GiB/h,frag>30,lost". 0, or -1 with the reason. `text` must stay.
int ct_fail_on_parse(struct ct_fail_on *f, const char *text);
// Whether there is a condition on a change.
int ct_fail_on_has_change(const struct ct_fail_on *f);

#endif

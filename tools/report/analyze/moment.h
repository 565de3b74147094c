// SPDX-License-Identifier: Apache-2.0
// The moment that a view describes: by default that of the failure, not what is left at the end.
#ifndef CT_MOMENT_H
#define CT_MOMENT_H

#include "analyze/scan.h"

enum ct_moment_kind {
    CT_MOMENT_OOM,  // after the OOM that crossed capacity
    CT_MOMENT_PEAK, // after the event of a device's peak
    CT_MOMENT_END,  // of the range
    CT_MOMENT_TIME,
};

struct ct_moment {
    enum ct_moment_kind kind;
    int device;     // an index: of the OOM or the peak, else -1
    uint64_t event; // of the OOM or the peak, else UINT64_MAX
    uint64_t t_ns;
};

// After the last event up to a time and a number (UINT64_MAX: whatever its number is).
struct ct_instant {
    uint64_t t_ns, event;
};

// Finds the moment of a kind in the range of the scan. Where there is no OOM, it is the peak of
// `device` (an index, or -1: none was seen), and where there is no peak, the end: `kind` of the
// result tells. `at`: for CT_MOMENT_TIME, which this is.
struct ct_moment ct_moment_find(const struct ct_scan *s, const struct ct_trace *t,
                                enum ct_moment_kind kind, int device, const struct ct_instant *at);
const char *ct_moment_kind_name(enum ct_moment_kind kind); // for JSON

#endif

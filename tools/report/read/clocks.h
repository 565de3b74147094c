// SPDX-License-Identifier: Apache-2.0
// The time of day of a trace's times, by the clocks that were read together at its start.
#ifndef CT_CLOCKS_H
#define CT_CLOCKS_H

#include "read/definitions.h"

struct ct_clocks {
    int known;
    uint64_t monotonic_ns, realtime_ns; // the same instant
};

void ct_clocks_read(struct ct_clocks *c, const struct ct_definitions *n);
// Sets `utc_ns` to the time since 1970. Returns 0 where the trace does not have it, or where its
// times cannot be: then that is before 1970 or beyond 2^63.
int ct_clocks_utc(const struct ct_clocks *c, uint64_t t_ns, uint64_t *utc_ns);

#endif

// SPDX-License-Identifier: Apache-2.0
// --from, --to and --at as times of a trace's events.
#ifndef CT_TIME_RANGE_H
#define CT_TIME_RANGE_H

#include "answer/view.h"

// Sets from_ns, to_ns and `at` of a view. 0, or -1 with an error: the trace cannot say when that
// is.
int ct_time_range_resolve(struct ct_view *v, struct ct_error *error);
// When memory ran out, and when the device that had most allocated had most: as summary finds them
// in the range of the view, in one scan.
struct ct_key_times {
    int is_read, has_crossing, has_peak;
    uint64_t crossing_ns, peak_ns;
};
// Does nothing if they are read already.
void ct_time_range_read_key_times(struct ct_view *v, struct ct_key_times *times);
// Sets `utc_ns` to the time since 1970 at a time of the events. Returns 0 if the trace does not
// have it.
int ct_time_range_utc(const struct ct_trace *t, uint64_t t_ns, uint64_t *utc_ns);

#endif

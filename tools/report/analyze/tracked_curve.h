// SPDX-License-Identifier: Apache-2.0
// The tracked memory of one process on one device over time, in bounded memory: the state after
// each event that changed it. Beyond CT_TRACKED_CURVE_POINTS changes the curve is thinned: of two
// neighbours the higher one is kept.
#ifndef CT_TRACKED_CURVE_H
#define CT_TRACKED_CURVE_H

#include <stddef.h>
#include <stdint.h>

enum { CT_TRACKED_CURVE_POINTS = 1 << 18 };

struct ct_tracked_point {
    uint64_t t_ns, bytes; // after all events up to this time
    uint64_t began_ns;    // when the call began whose event this is; t_ns if that is not known
    uint64_t earliest_ns; // the least began_ns of this point and all later ones
};

struct ct_tracked_curve {
    struct ct_tracked_point *points;
    size_t count, room;
    int is_thinned;
    uint64_t high, high_t_ns; // the most, after any event
};

// Adds the state after an event. Times do not decrease.
void ct_tracked_curve_add(struct ct_tracked_curve *c, uint64_t t_ns, uint64_t began_ns,
                          uint64_t bytes);
// To be called after the last point.
void ct_tracked_curve_finish(struct ct_tracked_curve *c);
// Returns the bytes after all events up to a time; 0 before the first one.
uint64_t ct_tracked_curve_at(const struct ct_tracked_curve *c, uint64_t t_ns);
// Returns the bytes of the allocations that were under way at a time: they had begun before it, and
// their events follow.
uint64_t ct_tracked_curve_in_flight(const struct ct_tracked_curve *c, uint64_t t_ns);
// Returns the bytes that were freed in the time before: the calls may still have been under way.
uint64_t ct_tracked_curve_freed(const struct ct_tracked_curve *c, uint64_t t_ns,
                                uint64_t before_ns);
void ct_tracked_curve_free(struct ct_tracked_curve *c);

#endif

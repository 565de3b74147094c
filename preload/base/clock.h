// SPDX-License-Identifier: Apache-2.0
// The time of events: CLOCK_MONOTONIC, computed from the time stamp counter where all cores share
// one.
#ifndef CT_BASE_CLOCK_H
#define CT_BASE_CLOCK_H

#include <stdint.h>

// Reads the time in nanoseconds of CLOCK_MONOTONIC. It never runs backwards: an event that happens
// before the call, in this thread or in another one that synchronizes with it, has an earlier or
// the same time, also if the source changes between. Any thread, at any time; no lock, no store.
uint64_t ct_clock_read(void);

// Reads the same time without waiting for the thread's earlier instructions, at half the cost. For
// the beginning of a duration.
uint64_t ct_clock_read_unordered(void);

// Compares the counter with CLOCK_MONOTONIC, at most once a second, and starts to use the counter,
// corrects its rate, or gives it up. The writer thread calls it at each wakeup.
void ct_clock_calibrate(void);

// In a forked child: resets a calibration that the parent's writer thread may have been in the
// midst of.
void ct_clock_reinit_child(void);

// The source of the time now: "tsc" or "clock".
const char *ct_clock_get_source(void);

#endif

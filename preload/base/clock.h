// SPDX-License-Identifier: Apache-2.0
// The time of events: CLOCK_MONOTONIC's, read from the time stamp counter where that is one clock for all cores.
#ifndef CT_CLOCK_H
#define CT_CLOCK_H

#include <stdint.h>

// Nanoseconds on CLOCK_MONOTONIC's scale. Never runs backwards: what happened before the call, in this thread or in
// another whose doing this one has seen, has an earlier or the same time, also across a switch from one source to the
// other. Any thread at any time; no lock, no store.
uint64_t ct_clock_read(void);

// The same, but perhaps of a moment in which earlier calls of the thread were not quite done: at half the price, for the
// beginning of a duration, and for a thread that has nothing from others.
uint64_t ct_clock_read_unordered(void);

// Compares the counter with CLOCK_MONOTONIC and switches over, corrects or gives the counter up. Called by the writer
// thread at each wake-up; does something once a second at most.
void ct_clock_calibrate(void);

// A forked child: its parent's writer may have been in the middle of ct_clock_calibrate.
void ct_clock_reinit_child(void);

// Where times come from now: "tsc" or "clock".
const char *ct_clock_get_source(void);

#endif

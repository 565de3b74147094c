// SPDX-License-Identifier: Apache-2.0
// Publishing events: where interception hands over and recording begins. Recording knows
// allocations, not drivers.
//
// The hooks fill a struct ct_event and call ct_publish; everything behind this header (rings,
// writer thread, file) may change without a hook changing. Thread rules: any thread at any time,
// also inside fork, dlopen and exit. No function exits, allocates from the host's heap, changes
// errno or raises a signal.
#ifndef CT_PUBLISH_H
#define CT_PUBLISH_H

#include <cutrace/format/format.h>

// Publishes an event. The caller has set op, api and whatever else is known, except thread, which
// is set here; t_ns as well if absent. When it returns, the event is in the journal and outlives
// the process. An event that finds its ring full waits for a bounded time, in which its thread may
// drain the rings; after that it is counted and reported as LOST. A failed allocation wakes the
// writer thread, which puts it into the trace at once.
void ct_publish(struct ct_event *event);

// Publishes the AMEND of an event of this thread that was published before its call. The caller has
// set amends_ns to that event's t_ns, and what is known by now: result (if the call failed),
// duration_ns (if it was measured), stack. A reader replaces these fields of the event.
void ct_publish_amend(struct ct_event *correction);

// Whether an event is to be recorded, by CUTRACE_MIN_SIZE and CUTRACE_SAMPLE: only successful
// allocations may be left out. The writer leaves out the frees of what was not recorded. Asked
// before a stack is taken.
int ct_publish_wants(const struct ct_event *event);

// Moves everything published so far into the file. Returns 0, or -EBUSY if another thread is
// writing (which will do it next).
int ct_publish_flush(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// The recorder: where interception hands over and recording begins. It knows allocations, not drivers.
//
// The hooks fill a struct ct_event and call ct_record; everything behind this header (rings, stacks,
// writer, file) may change without a hook changing. Thread rules: every function may be called from
// any thread at any time, also inside fork, dlopen and exit, unless it says otherwise. None of them
// blocks, exits, allocates from the host's heap, changes errno or raises a signal.
#ifndef CT_RECORDER_H
#define CT_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/format.h>

// ---- switches (options.c) -------------------------------------------------------------------

// Whether tracing is on in this process. The first call reads the CUTRACE_* environment; nothing is
// read, opened or started before it.
int ct_enabled(void);

// ---- names ----------------------------------------------------------------------------------

// Names are string literals or live as long as the process; the recorder keeps the pointer. Returns
// an id for ct_event.api or ct_event.text; the same pointer yields the same id; 0 when the (bounded)
// table is full. Lock-free. The id is the process's, the writer maps it to the file's.
uint32_t ct_name_intern(const char *literal);

// Copies text (cut at 200 bytes) and returns an id for ct_event.text. For rare notes only.
uint32_t ct_name_intern_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- recording ------------------------------------------------------------------------------

// CLOCK_MONOTONIC in ns, strictly increasing within a thread, never 0.
uint64_t ct_now(void);

// Id of the native call stack of the caller, without the frames of this library. 0 if unknown (the
// stack table is full, stacks are off).
uint32_t ct_stack(void);

// The same, but only the Python frames where the thread has any: for what happens thousands of times as often.
uint32_t ct_light_stack(void);

// Whether an event is to be recorded, by CUTRACE_MIN_SIZE and CUTRACE_SAMPLE: all but some successful allocations
// are. The writer leaves out the give-backs of what was not recorded. Asked before a stack is taken.
int ct_is_wanted(const struct ct_event *event);

// Publishes an event. The caller has set op, api and whatever else is known, except thread, which
// the recorder sets; t_ns as well if absent. When it returns, the event is in the journal and outlives
// the process. An event that finds its ring full waits for a moment, in which it may drain for itself, and
// is then counted and reported as LOST.
// A BLOCK_OOM, and a failed ALLOC, CREATE or GRAPH_ALLOC (result present and not 0) wakes the writer thread, which puts it into the
// trace at once.
void ct_record(struct ct_event *event);

// Publishes the AMEND of an event of this thread that was published before its call. The caller has
// set amends_ns to that event's t_ns, and what is known by now: result (if the call failed),
// duration_ns (if it was measured), stack. A reader replaces these fields of the event.
void ct_amend(struct ct_event *correction);

// ---- what the writer asks of the hooks ------------------------------------------------------

// A fact for the INFO section, e.g. ("device.0.total_bytes", "85899345920"). Copies both. Bounded;
// setting a key again replaces its value. May take a spin lock of the recorder: not for hot paths.
void ct_info(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Called where the recorder starts and by the writer thread when objects were loaded, or when it was asked for: for what takes
// the loader's lock. Set once, before the first event.
void ct_set_look(void (*look)(void));
void ct_look(void);
// Asks the writer thread to call it. For any thread at any time.
void ct_ask_to_look(void);
int ct_look_is_wanted(void);

// Called by the writer (in any thread) before it writes INFO, to let the hooks refresh counters
// through ct_info. Set once, before the first event.
void ct_set_info_source(void (*refresh)(void));

// Devices for the NVML sampler and for the line on stderr: the CUDA ordinal and its 16-byte UUID.
// total_bytes is the capacity as the driver tells it.
void ct_device(int ordinal, const unsigned char uuid[16], uint64_t total_bytes);

// A name for the devices' list of the refusal line and for INFO comes through ct_info.

// ---- moments --------------------------------------------------------------------------------

// Opens the trace if it is not open yet (the first context creation or memory call does this by
// itself through ct_record). Exit and fork are the recorder's own affair (destructor, pthread_atfork).
void ct_open(void);

// Moves everything published so far into the file. Returns 0, or -EBUSY if another thread is
// writing (which will do it next).
int ct_flush(void);

// Nanoseconds between two cuMemGetInfo samples beside allocations (option CUTRACE_SAMPLE_MS).
uint64_t ct_sample_interval_ns(void);

// Whether give-backs record stacks (CUTRACE_FREE_STACKS=1).
int ct_free_stacks(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// The state of the process and its devices after the events that are drained: live objects,
// readings of the devices, and the coarse history of both. Checkpoints are written from it. Drain
// lock held, unless a function says otherwise.
#ifndef CT_WRITE_LIVE_STATE_H
#define CT_WRITE_LIVE_STATE_H

#include <cutrace/format/journal.h>
#include <cutrace/model/digest.h>
#include <cutrace/model/history.h>
#include <cutrace/model/live.h>

// Begins with no object. Returns 0, or -ENOMEM.
int ct_live_state_init(void);

// Objects of events before this one are in the trace as sums by call site only (an inexact
// checkpoint); 0: none are.
void ct_live_state_set_summed_before(uint64_t event);

// Prefetch, in two steps, the memory that ct_live_state_apply will read. The first one returns a
// hash for the other two functions.
uint64_t ct_live_state_prefetch_line(const struct ct_event *e);
void ct_live_state_prefetch_slots(uint64_t hash);

// Applies an event to the state and the chunk's digest; `number` is its number in the trace. A free
// gets what a reader needs of the object that it frees: the device, or size and call site, too.
void ct_live_state_apply(struct ct_event *e, uint64_t number, uint64_t hash);

// Whether an event frees an allocation that was not recorded; for use with CUTRACE_MIN_SIZE or
// CUTRACE_SAMPLE only.
int ct_live_state_is_unknown_free(const struct ct_event *e);

// Records the gaps between addresses in the history, if the last time is long ago; not for each
// event.
void ct_live_state_sample_gaps(uint64_t t_ns);

const struct ct_live *ct_live_state_get_live(void);
const struct ct_readings *ct_live_state_get_readings(void);
const struct ct_history *ct_live_state_get_history(void);

// Begins the digest of a chunk, whose first event is the next one.
void ct_live_state_begin_digest(uint64_t first_event);

// The digest of the events since it was begun; NULL: it cannot be right. `to_id` gives the id of a
// stack, as ct_digest_choose_sites needs it. Valid until the next event.
const struct ct_digest *ct_live_state_end_digest(uint32_t (*to_id)(uint32_t stack));

// An event that was applied is not in the trace, or not as it was applied. From now on, what a
// reader finds live is not what is live here, so that no more digests are written.
void ct_live_state_drop_digests(void);

// How the memory of a device (an index) is used after the last event that was applied.
struct ct_breakdown ct_live_state_get_breakdown(int device);

// Whether a reading differs so much from NVML's last sample that a new sample is needed before its
// time. Any thread.
int ct_live_state_wants_nvml(void);

// Writes the counters of the devices into the journal, for other processes.
void ct_live_state_report(struct ct_journal *j);

void ct_live_state_reinit_child(void);

#endif

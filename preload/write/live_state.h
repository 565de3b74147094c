// SPDX-License-Identifier: Apache-2.0
// The state of the process and its devices after what has been taken out of the rings: what is alive, what was read,
// and the coarse curve of all that. Drain lock held.
#ifndef CT_STATE_H
#define CT_STATE_H

#include <cutrace/format/journal.h>
#include <cutrace/model/history.h>

// Nothing has happened. 0, or -ENOMEM.
int ct_live_state_init(void);

// What the events before this one made is in the trace as sums only (an inexact checkpoint); 0: nothing is.
void ct_live_state_set_summed_before(uint64_t event);

// Looks where ct_live_state_apply will look, and fetches that, in two steps: see ct_live_look. What the first one returns is for
// the others.
uint64_t ct_live_state_prefetch_line(const struct ct_event *e);
void ct_live_state_prefetch_slots(uint64_t look);

// What an event changes; `number` is its number in the trace. A give-back is told what it gives back, as far as a reader
// needs it: the device, or size and call site too.
void ct_live_state_apply(struct ct_event *e, uint64_t number, uint64_t look);

// Whether an event gives back what was left out when it was taken; to be asked with CUTRACE_MIN_SIZE or CUTRACE_SAMPLE only.
int ct_live_state_is_unknown_free(const struct ct_event *e);

// Looks at the gaps between addresses, if it is time; not for each event.
void ct_live_state_sample_gaps(uint64_t t_ns);

const struct ct_live *ct_live_state_get_live(void);
const struct ct_readings *ct_live_state_get_readings(void);
const struct ct_history *ct_live_state_get_history(void);

// Bytes of a device: tracked; used by the process as NVML sees it, UINT64_MAX if that is not known.
uint64_t ct_live_state_get_tracked_bytes(int device);
uint64_t ct_live_state_get_process_bytes(int device);

// Whether a reading differs so much from NVML's last answer that it should be asked again before its time; any thread.
int ct_live_state_wants_nvml(void);

// Puts the devices' counters where other processes look.
void ct_live_state_report(struct ct_journal *j);

void ct_live_state_reinit_child(void);

#endif

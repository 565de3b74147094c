// SPDX-License-Identifier: Apache-2.0
// Merges the rings: events of all threads in the order of time, a batch after the other, with the
// corrections in it applied. Drain lock held.
#ifndef CT_WRITE_RING_MERGE_H
#define CT_WRITE_RING_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/format.h>

// Begins a merge of all events that are older than the time that is returned; no older event will
// be published later. 0: nothing can be merged now.
uint64_t ct_ring_merge_begin(void);

int ct_ring_merge_has_more(void);

// Copies the next events: `most` of them, and all others of the time of the last one (`batch` has
// room for most + CT_JOURNAL_MAX_RINGS). Their bytes in the rings stay until ct_ring_merge_release.
// Returns the number of events.
size_t ct_ring_merge_copy(struct ct_event *batch, size_t most);

// Frees the bytes of the copied events in the rings: they are committed elsewhere.
void ct_ring_merge_release(void);

void ct_ring_merge_reinit_child(void);

// Corrects events: applies each AMEND of the batch whose event is in the batch, too. Then the file
// has neither the mistake nor the AMEND. The AMEND stays in the batch without an operation. The
// batch is in the order of time.
void ct_amend_apply(struct ct_event *batch, size_t n);

#endif

// SPDX-License-Identifier: Apache-2.0
// Events of all rings in the order of time. Drain lock held.
#ifndef CT_MERGE_H
#define CT_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/format.h>

// Looks at all rings. What is taken from here on is older than the time that is returned, and all that is older will be
// taken. 0: nothing can be taken this time.
uint64_t ct_ring_merge_begin(void);

int ct_ring_merge_has_more(void);

// Copies the next events, `most` of them and all others of the time of the last one (`batch` has room for most +
// CT_RINGS). They keep their places in the rings until ct_ring_merge_release. Returns how many.
size_t ct_ring_merge_copy(struct ct_event *batch, size_t most);

// What was taken is safe elsewhere: its places are free.
void ct_ring_merge_release(void);

void ct_ring_merge_reinit_child(void);

#endif

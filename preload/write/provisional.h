// SPDX-License-Identifier: Apache-2.0
// When the open chunk goes to the file before it is complete, as a provisional chunk, so that the
// file alone tells all but the last seconds of a process that is killed. Drain lock held.
//
// A provisional chunk has all of the open chunk so far, and the next one or the complete chunk
// replaces it. So of n bytes of chunks at most 4 n are written: VERSIONS provisional ones, none of
// them larger than the chunk itself, and the chunk, which is written twice where it does not fit in
// front of them (store/file_ring.c, R9). If it does not, they are smaller together than if it does:
// of sizes a <= b <= c <= n, it fits if n <= a + b, else a + b + c < 2 n.
#ifndef CT_WRITE_PROVISIONAL_H
#define CT_WRITE_PROVISIONAL_H

#include <stdint.h>

// A new chunk is open, which has nothing yet.
void ct_provisional_begin_chunk(void);

// Plans the next provisional chunk, after a drain. `contents`: a number that grows with everything
// that is put into the open chunk; flush_ns: the time after which that is complete. Returns when it
// is due (ct_clock_read); 0: nothing is new in the open chunk, or it gets none.
uint64_t ct_provisional_plan(uint64_t contents, uint64_t flush_ns);

// Whether one is due now.
int ct_provisional_is_due(void);

// One is in the file, or has found no room there, with the contents of the last plan.
void ct_provisional_note_written(void);

#endif

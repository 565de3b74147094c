// SPDX-License-Identifier: Apache-2.0
// The ring of finished chunks in the journal. A reader may read it while the process runs and after
// it was killed (cutrace/format/journal.h describes its bytes).
//
// Invariants:
//   M1  Positions only rise; the byte at a position lies at that position modulo the size. Bytes
//       [tail, head) are complete entries, and head - tail <= size.
//   M2  The tail passes an entry before the entry is overwritten; a sequentially consistent fence
//       orders the two. A reader that copies an entry and then finds the tail still at or before it
//       has a whole copy.
//   M3  The head passes an entry (release) after all of the entry is written.
//   M4  An entry lies in one piece: where the rest up to the end of the ring is too short, a length
//       of 0 marks it as unused.
//   M5  Memory is reserved before it is written (journal.c, J2), in the first round. If that fails,
//       the ring shrinks to what is reserved. Positions keep their places, because in the first
//       round they are smaller than either size.
#include "store/memory_chunks.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <cutrace/format/assert.h>

#include "store/journal.h"
#include "store/journal_file.h"
#include "store/trace_file.h"

#define WORD 8u
#define FLUSH_BYTES (UINT64_C(8) << 20) // written by one flush

// ---- the ring -------------------------------------------------------------------------------

// 0: there is no ring.
static uint64_t ring_bytes(void) {
    const struct ct_journal *h = ct_journal_get();
    return h ? ct_journal_get_chunk_bytes() : 0;
}

uint64_t ct_memory_chunks_limit(uint64_t bytes) {
    return ring_bytes() && (!bytes || bytes > ring_bytes()) ? ring_bytes() : bytes;
}

static uint64_t to_offset(uint64_t position) {
    const uint64_t bytes = ring_bytes();
    return bytes ? position % bytes : 0;
}

static uint8_t *at_position(uint64_t position) {
    return ct_journal_get_chunk_memory() + to_offset(position);
}

static uint64_t bytes_to_end(uint64_t position) {
    return ring_bytes() - to_offset(position);
}

// The length of the chunk in an entry; 0: the rest of the ring is unused.
static uint64_t read_length(uint64_t position) {
    uint64_t length;
    memcpy(&length, at_position(position), WORD);
    return length;
}

static uint64_t next_entry(uint64_t position) {
    const uint64_t n = read_length(position);
    return position + (n ? WORD + n : bytes_to_end(position));
}

// Moves the tail so that the n bytes after the head, which do not pass the end of the ring, may be
// overwritten. -ENOSPC: there is no memory for them, and the ring has become shorter.
static int make_room(struct ct_journal *h, uint64_t n) {
    const uint64_t head = atomic_load(&h->chunks_head);
    uint64_t tail = atomic_load(&h->chunks_tail);
    const uint64_t ready = ct_journal_grow_chunk_memory(to_offset(head) + n);
    if (ready < to_offset(head) + n) {
        CT_ASSERT(head <= ready && head == to_offset(head)); // M5
        ct_journal_shrink_chunk_memory(ready);
        ct_journal_budget_report_shrink(ready);
        return -ENOSPC;
    }
    while (head + n - tail > ring_bytes())
        tail = next_entry(tail);
    CT_ASSERT(tail <= head); // M1
    atomic_store_explicit(&h->chunks_tail, tail, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); // M2
    return 0;
}

// -EFBIG: the chunk is larger than the ring. -ENOSPC: see make_room.
static int append_entry(struct ct_journal *h, const void *chunk, uint64_t n) {
    uint64_t head = atomic_load(&h->chunks_head), unused = 0;
    int rc;
    CT_ASSERT(n > 0 && n % WORD == 0);
    if (n + WORD > ring_bytes())
        return -EFBIG;
    if (bytes_to_end(head) < n + WORD) {
        if ((rc = make_room(h, bytes_to_end(head))))
            return rc;
        memcpy(at_position(head), &unused, WORD);
        head += bytes_to_end(head);
        atomic_store_explicit(&h->chunks_head, head, memory_order_release);
    }
    if ((rc = make_room(h, n + WORD)))
        return rc;
    memcpy(at_position(head), &n, WORD);
    memcpy(at_position(head) + WORD, chunk, n);
    atomic_store_explicit(&h->chunks_head, head + WORD + n, memory_order_release); // M3
    return 0;
}

// ---- into the file --------------------------------------------------------------------------

static int write_to_file(const uint8_t *chunk, uint64_t n) {
    struct ct_chunk head;
    memcpy(&head, chunk + WORD, sizeof head);
    return ct_trace_file_append(chunk, n, head.seq, head.flags);
}

uint64_t ct_memory_chunks_get_end(void) {
    return ring_bytes() ? atomic_load(&ct_journal_get()->chunks_head) : 0;
}

int ct_memory_chunks_flush(uint64_t end) {
    struct ct_journal *h = ct_journal_get();
    const uint64_t from = ring_bytes() ? atomic_load(&h->chunks_tail) : end;
    for (uint64_t tail = from; tail < end;) {
        const uint64_t n = read_length(tail);
        const int rc = n ? write_to_file(at_position(tail) + WORD, n) : 0;
        if (rc)
            return rc; // also for a chunk that the file can never take: in the ring it can be read
        tail = next_entry(tail);
        atomic_store_explicit(&h->chunks_tail, tail, memory_order_release);
        if (tail - from >= FLUSH_BYTES && tail < end)
            return -EAGAIN;
    }
    return 0;
}

static int flush_all(void) {
    int rc;
    do
        rc = ct_memory_chunks_flush(ct_memory_chunks_get_end());
    while (rc == -EAGAIN);
    return rc;
}

int ct_memory_chunks_append(const void *chunk, size_t n, uint64_t seq, unsigned flags) {
    int rc = ring_bytes() ? append_entry(ct_journal_get(), chunk, n) : -EFBIG;
    // The ring has become shorter and would overwrite its chunks early, so they go to the file
    // first.
    if (rc == -ENOSPC) {
        (void)flush_all();
        rc = append_entry(ct_journal_get(), chunk, n);
    }
    if (rc != -EFBIG)
        return rc;
    if (ring_bytes() && (rc = flush_all()))
        return rc;
    return ct_trace_file_append(chunk, n, seq, flags);
}

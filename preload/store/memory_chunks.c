// SPDX-License-Identifier: Apache-2.0
// The shelf: with CUTRACE_MEMORY, finished chunks stay in the journal until the trace's file is to have them.
//
// It is a ring that a reader may look at whenever the process is killed, or while it runs (cutrace/journal.h). So what
// is about to be overwritten is given up before (the tail moves), and what is new counts when it is whole (the
// head moves). Memory of a tmpfs is taken with the first round, not beforehand.
#include "store/memory_chunks.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "store/journal.h"
#include "store/memory_budget.h"
#include "store/trace_file.h"

#define WORD 8u
#define FLUSH_BYTES (UINT64_C(8) << 20) // written at a time

// ---- the ring -------------------------------------------------------------------------------

static uint64_t size(void) {
    const struct ct_journal *h = ct_journal_get();
    return h ? atomic_load_explicit(&h->chunks_bytes, memory_order_relaxed) : 0;
}

uint64_t ct_memory_chunks_limit(uint64_t bytes) {
    return size() && (!bytes || bytes > size()) ? size() : bytes;
}

static uint64_t offset(uint64_t position) {
    const uint64_t bytes = size();
    return bytes ? position % bytes : 0;
}

static uint8_t *place(uint64_t position) {
    return ct_journal_get_chunk_memory() + offset(position);
}

static uint64_t to_end(uint64_t position) {
    return size() - offset(position);
}

static uint64_t word_at(uint64_t position) {
    uint64_t word;
    memcpy(&word, place(position), WORD);
    return word;
}

// The entry behind one.
static uint64_t behind(uint64_t position) {
    const uint64_t n = word_at(position);
    return position + (n ? WORD + n : to_end(position));
}

// The next n bytes, which end where the ring does at the latest, hold nothing that counts. -ENOSPC: there is no memory for
// them, and the ring ends before.
static int clear(struct ct_journal *h, uint64_t n) {
    const uint64_t head = atomic_load(&h->chunks_head);
    uint64_t tail = atomic_load(&h->chunks_tail);
    const uint64_t ready = ct_journal_grow_chunk_memory(offset(head) + n);
    if (ready < offset(head) + n) {
        // This is the first round: positions are places, whatever the size.
        atomic_store(&h->chunks_bytes, ready);
        ct_memory_budget_report_shrink(ready);
        return -ENOSPC;
    }
    while (head + n - tail > size())
        tail = behind(tail);
    atomic_store_explicit(&h->chunks_tail, tail, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); // before anything is written there
    return 0;
}

static int put(struct ct_journal *h, const void *chunk, uint64_t n) {
    uint64_t head = atomic_load(&h->chunks_head), unused = 0;
    int rc;
    if (n + WORD > size())
        return -EFBIG;
    if (to_end(head) < n + WORD) {
        if ((rc = clear(h, to_end(head))))
            return rc;
        memcpy(place(head), &unused, WORD);
        head += to_end(head);
        atomic_store_explicit(&h->chunks_head, head, memory_order_release);
    }
    if ((rc = clear(h, n + WORD)))
        return rc;
    memcpy(place(head), &n, WORD);
    memcpy(place(head) + WORD, chunk, n);
    atomic_store_explicit(&h->chunks_head, head + WORD + n, memory_order_release);
    return 0;
}

// ---- into the file --------------------------------------------------------------------------

// (One that the file can never take stays as well: here it can be read.)
static int to_file(const uint8_t *chunk, uint64_t n) {
    struct ct_chunk head;
    memcpy(&head, chunk + WORD, sizeof head);
    return ct_trace_file_append(chunk, n, head.seq, head.flags);
}

uint64_t ct_memory_chunks_get_end(void) {
    return size() ? atomic_load(&ct_journal_get()->chunks_head) : 0;
}

int ct_memory_chunks_flush(uint64_t end) {
    struct ct_journal *h = ct_journal_get();
    const uint64_t from = size() ? atomic_load(&h->chunks_tail) : end;
    for (uint64_t tail = from; tail < end;) {
        const uint64_t n = word_at(tail);
        const int rc = n ? to_file(place(tail) + WORD, n) : 0;
        if (rc)
            return rc;
        tail = behind(tail);
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
    int rc = size() ? put(ct_journal_get(), chunk, n) : -EFBIG;
    // It has become smaller: before it goes round too early, what it holds goes to the file.
    if (rc == -ENOSPC) {
        (void)flush_all();
        rc = put(ct_journal_get(), chunk, n);
    }
    if (rc != -EFBIG)
        return rc;
    if (size() && (rc = flush_all()))
        return rc;
    return ct_trace_file_append(chunk, n, seq, flags);
}

// SPDX-License-Identifier: Apache-2.0
// Merges the rings with a heap: the ring with the oldest event is at its top. The head of ring.c
// says why no event is missed.
#include "write/ring_merge.h"

#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "store/journal.h"
#include "store/ring.h"

#define STEP 16u // bytes that are copied at a time

struct source {
    uint64_t t_ns; // of the next event
    struct ct_ring *ring;
};

static struct {
    struct source *sources; // a heap by time
    size_t n;
    uint64_t limit; // only older events are merged
} m;

// The time of the second source in the order of time; UINT64_MAX: there is none.
static uint64_t get_second_time(void) {
    const struct source *s = m.sources;
    if (m.n < 2)
        return UINT64_MAX;
    return m.n == 2 || s[1].t_ns <= s[2].t_ns ? s[1].t_ns : s[2].t_ns;
}

// Puts a source at index `at` of the heap, or below it.
static inline void sift_down(size_t at, struct source down) {
    struct source *const s = m.sources;
    for (size_t child; (child = 2 * at + 1) < m.n; at = child) {
        if (child + 1 < m.n && s[child + 1].t_ns < s[child].t_ns)
            child++;
        if (down.t_ns <= s[child].t_ns)
            break;
        s[at] = s[child];
    }
    s[at] = down;
}

// The time before which every event is published (ring.c, invariant R5). 0: not known now.
static uint64_t find_safe_limit(void) {
    const uint64_t now = ct_clock_read();
    uint64_t limit = now;
    atomic_store(&ct_ring_watermark, now);
    if (ct_rings_fence())
        return 0;
    for (struct ct_ring *r = ct_rings(); r; r = r->next) {
        const uint64_t bound = ct_ring_announced_bound(r);
        limit = bound < limit ? bound : limit;
    }
    return limit;
}

// Whether bytes up to `end` are left. (Not "taken == end": a ring that another program has written
// to may lead beyond it.)
static inline int has_more(const struct ct_ring *r) {
    return r->end - r->taken - 1 <= r->mask;
}

// The time of the ring's next event; UINT64_MAX: there is none.
static uint64_t peek_time(struct ct_ring *r) {
    if (!has_more(r))
        return UINT64_MAX;
    const struct ct_event *const record = ct_ring_record(r, &r->taken);
    const uint64_t left = r->mask + 1 - (r->taken & r->mask);
    if (__builtin_expect(has_more(r) && ct_journal_record_bytes(record->present) <= left, 1))
        return record->t_ns;
    r->taken = r->end;
    return UINT64_MAX;
}

uint64_t ct_ring_merge_begin(void) {
    m.limit = find_safe_limit();
    m.n = 0;
    if (!m.sources && !(m.sources = ct_pages_map(CT_JOURNAL_MAX_RINGS * sizeof *m.sources)))
        return 0;
    for (struct ct_ring *r = ct_rings(); r && m.n < CT_JOURNAL_MAX_RINGS; r = r->next) {
        r->end = atomic_load_explicit(&r->shared->head, memory_order_acquire);
        r->taken = atomic_load_explicit(&r->shared->tail, memory_order_relaxed);
        const uint64_t t_ns = peek_time(r);
        if (t_ns < m.limit)
            m.sources[m.n++] = (struct source){t_ns, r};
    }
    for (size_t i = m.n / 2; i-- > 0;)
        sift_down(i, m.sources[i]);
    return m.limit;
}

int ct_ring_merge_has_more(void) {
    return m.n != 0;
}

// Copies a record of at least 16 bytes, in steps; the last two may overlap.
static inline void copy_record(uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i + STEP < bytes; i += STEP)
        memcpy(to + i, from + i, STEP);
    memcpy(to + bytes - STEP, from + bytes - STEP, STEP);
}

// Copies the next event of a ring. Returns the time of the ring's event after it.
static inline uint64_t copy_event(struct ct_ring *r, struct ct_event *e) {
    const struct ct_event *record = ct_ring_record(r, &r->taken);
    const size_t bytes = ct_journal_record_bytes(record->present);
    copy_record((uint8_t *)e, (const uint8_t *)record, bytes);
    r->taken += bytes;
    return peek_time(r);
}

size_t ct_ring_merge_copy(struct ct_event *batch, size_t most) {
    size_t n = 0;
    // A ring has one event of a time at most.
    while (m.n && (n < most ||
                   (m.sources[0].t_ns == batch[n - 1].t_ns && n < most + CT_JOURNAL_MAX_RINGS))) {
        struct source first = m.sources[0];
        const uint64_t second_ns = get_second_time();
        do {
            first.t_ns = copy_event(first.ring, &batch[n++]);
        } while (n < most && first.t_ns < m.limit && first.t_ns <= second_ns);
        if (first.t_ns < m.limit)
            sift_down(0, first);
        else if (--m.n)
            sift_down(0, m.sources[m.n]);
    }
    return n;
}

void ct_ring_merge_release(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        if (r->taken != atomic_load_explicit(&r->shared->tail, memory_order_relaxed))
            atomic_store_explicit(&r->shared->tail, r->taken, memory_order_release);
}

void ct_ring_merge_reinit_child(void) {
    memset(&m, 0, sizeof m);
}

// ---- corrections ------------------------------------------------------------------------------

// Most, because a call corrects its event within microseconds. The others go to the file, and a
// reader applies them.

// The event in the batch that an AMEND corrects, or NULL.
static struct ct_event *find_amended(struct ct_event *batch, size_t n,
                                     const struct ct_event *amend) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (batch[middle].t_ns < amend->amends_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n && batch[low].t_ns == amend->amends_ns; low++)
        if (batch[low].thread == amend->thread && batch[low].op != CT_OP_AMEND)
            return &batch[low];
    return NULL;
}

void ct_amend_apply(struct ct_event *batch, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct ct_event *e = &batch[i];
        struct ct_event *target = e->op == CT_OP_AMEND ? find_amended(batch, n, e) : NULL;
        if (!target)
            continue;
        if (CT_HAS(e, result))
            CT_SET(target, result, e->result);
        if (CT_HAS(e, duration_ns))
            CT_SET(target, duration_ns, e->duration_ns);
        if (CT_HAS(e, stack))
            CT_SET(target, stack, e->stack);
        batch[i].op = 0;
    }
}

// SPDX-License-Identifier: Apache-2.0
// One ring of events for each thread that records: the thread puts events in, the holder of the
// drain lock takes them out.
//
// The drainer takes all events in the order of their times without stopping a thread.
//   A thread publishes:          The drainer takes events out:
//   1 announced = a time bound   1 watermark = T = clock
//   2 fence                      2 fence
//   3 t = clock                  3 limit = min(T, announced of all rings)
//   4 write the record           4 read all heads
//   5 head += record (release)   5 take the events with t < limit
//   6 announced = IDLE
//
// Invariants:
// R1 `announced` is at most the time of the event that is being published, or CT_JOURNAL_IDLE.
// R2 Times in one ring increase strictly; `last_ns` is the time of the newest record.
// R3 Only the owner moves `head`, only the drainer moves `tail`, and
//    tail <= head <= tail + size of the ring.
// R4 The record is whole before `head` covers it. A record lies in one piece: one that does not fit
//    before the end of the ring starts at its beginning, and a word 0 marks the gap.
// R5 After a drain with `limit`, no event with t < limit is published any more.
//
// Why R5 holds: let t < limit <= T. The thread has read its clock (3) before the drainer read T
// (1), so it had announced (1) before that. With both fences, the drainer sees either the
// announcement, and then limit <= bound <= t contradicts t < limit, or what the thread stored after
// it published: then head, read later (4), covers the event. An event that was timed earlier, by
// ct_ring_now, announces that time and looks at the watermark afterwards: the drainer sees the
// announcement, or the thread sees the watermark and times the event again. tests/model/ring.pml
// checks this with spin.
//
// The fences are sequentially consistent stores and loads on both sides. Where the kernel has
// membarrier(2), the drainer makes all threads of the process execute one, and a thread needs only
// a compiler fence.
#include "store/ring.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/hot.h>

#include "base/membarrier.h"
#include "base/options.h"
#include "base/pages.h"
#include "store/journal.h"

_Atomic uint64_t ct_ring_watermark;
_Atomic uint64_t ct_ring_lost_without_ring;

static struct ct_ring *_Atomic rings;
static _Atomic uint32_t claims;
static _Atomic uint32_t threads;
// Changes in a forked child: thread-local pointers to rings of the parent are then void.
static _Atomic uint32_t generation = 1;

static __thread struct {
    struct ct_ring *ring;
    uint32_t generation;
    uint64_t last_now;
} self __attribute__((tls_model("initial-exec")));

// ---- fences ---------------------------------------------------------------------------------

static _Atomic int drainer_fences; // the drainer can make all threads execute a fence

static void (*_Atomic open_journal)(void);

void ct_rings_set_open(void (*open)(void)) {
    atomic_store(&open_journal, open);
}

void ct_rings_init(void) {
    atomic_store(&drainer_fences, !ct_membarrier_register());
}

int ct_rings_fence(void) {
    if (!atomic_load_explicit(&drainer_fences, memory_order_relaxed) ||
        !ct_membarrier_all_threads())
        return 0;
    // Forbidden since (seccomp). Threads that are publishing now still rely on it: take nothing
    // this time.
    atomic_store(&drainer_fences, 0);
    return -EAGAIN;
}

// Steps 1 and 2 of publishing.
static inline void announce_bound(struct ct_journal_ring *s, uint64_t bound) {
    if (__builtin_expect(atomic_load_explicit(&drainer_fences, memory_order_relaxed), 1)) {
        atomic_store_explicit(&s->announced, bound, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_store_explicit(&s->announced, bound, memory_order_seq_cst);
    }
}

// ---- rings ----------------------------------------------------------------------------------

struct ct_ring *ct_rings(void) {
    return atomic_load_explicit(&rings, memory_order_acquire);
}

// ---- time ------------------------------------------------------------------------------------

uint64_t ct_ring_now(void) {
    const uint64_t t = ct_clock_read();
    self.last_now = t > self.last_now ? t : self.last_now + 1;
    return self.last_now;
}

// ---- claiming --------------------------------------------------------------------------------

const struct ct_journal_thread *ct_ring_thread(uint32_t number) {
    const struct ct_journal *j = ct_journal_get();
    const struct ct_journal_thread *t = number ? ct_journal_get_thread(number) : NULL;
    return j && t && t->number == number ? t : NULL;
}

// A new number for the calling thread; 0 if the table is full.
static uint32_t thread_number(uint32_t tid) {
    const uint32_t number = atomic_fetch_add(&threads, 1) + 1;
    struct ct_journal_thread *t = ct_journal_get_thread(number);
    if (!t)
        return 0;
    t->number = 0; // the place may have been another thread's
    t->tid = tid;
    memset(t->name, 0, sizeof t->name);
    if (!CT_OPTION_NUMBER(PRIVATE))
        (void)prctl(PR_GET_NAME, t->name, 0, 0, 0);
    t->number = number;
    return number;
}

static int thread_has_ended(uint32_t tid) {
    return syscall(SYS_tgkill, getpid(), tid, 0) == -1 && errno == ESRCH;
}

// Takes over a ring whose thread has ended. The claim number in `owner` makes a recycled tid
// another owner.
static struct ct_ring *reuse_ring(uint64_t me) {
    int probes = 64; // each is a system call
    for (struct ct_ring *r = ct_rings(); r && probes; r = r->next) {
        uint64_t owner = atomic_load_explicit(&r->shared->owner, memory_order_acquire);
        const uint32_t tid = (uint32_t)owner;
        if (tid && tid != (uint32_t)me) {
            probes--;
            if (!thread_has_ended(tid))
                continue;
        }
        if (atomic_compare_exchange_strong(&r->shared->owner, &owner, me))
            return r;
    }
    return NULL;
}

static struct ct_arena handles = {.bytes = CT_JOURNAL_MAX_RINGS * sizeof(struct ct_ring)};

static struct ct_ring *make_ring(uint64_t me) {
    struct ct_ring *r = ct_arena_alloc(&handles, sizeof *r);
    int is_apart;
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r); // a forked child uses the arena of its parent again
    if (!(r->shared = ct_journal_add_ring(&r->mapped, &is_apart)))
        return NULL;
    r->data = (uint8_t *)r->shared + CT_JOURNAL_PAGE;
    r->mask = r->mapped - CT_JOURNAL_PAGE - 1;
    r->told = is_apart ? ~UINT64_C(0) : ~(r->mask >> 2);
    atomic_init(&r->shared->announced, CT_JOURNAL_IDLE);
    atomic_store_explicit(&r->shared->owner, me, memory_order_release);
    r->next = atomic_load(&rings);
    while (!atomic_compare_exchange_weak(&rings, &r->next, r))
        ;
    return r;
}

// The owner's last store for an event: it releases all that the owner has stored to the next one.
static inline void end_publishing(struct ct_ring *r) {
    atomic_store_explicit(&r->publishing, 0, memory_order_release);
}

static __attribute__((noinline)) struct ct_ring *claim_ring(void) {
    const int saved = errno;
    const uint32_t tid = (uint32_t)syscall(SYS_gettid);
    const uint64_t me = (uint64_t)(atomic_fetch_add(&claims, 1) + 1) << 32 | tid;
    void (*open)(void) = atomic_load(&open_journal);
    if (open)
        open(); // rings lie in the journal
    struct ct_ring *r = reuse_ring(me);
    if (!r)
        r = make_ring(me);
    if (r) {
        // Acquire: what the previous owner has stored is visible from here on.
        (void)atomic_load_explicit(&r->publishing, memory_order_acquire);
        // The previous owner may have been ended while it published or captured.
        atomic_store_explicit(&r->shared->announced, CT_JOURNAL_IDLE, memory_order_release);
        atomic_store_explicit(&r->unwinding, 0, memory_order_release);
        atomic_store_explicit(&r->in_python, 0, memory_order_release);
        end_publishing(r);
        r->claim = (uint32_t)(me >> 32);
        atomic_store_explicit(&r->shared->thread, thread_number(tid), memory_order_relaxed);
        self.ring = r;
        self.generation = atomic_load(&generation);
    }
    errno = saved;
    return r;
}

struct ct_ring *ct_ring_claimed(void) {
    return self.generation == atomic_load_explicit(&generation, memory_order_relaxed) ? self.ring
                                                                                      : NULL;
}

struct ct_ring *ct_ring_claim(void) {
    struct ct_ring *r = ct_ring_claimed();
    return r ? r : claim_ring();
}

// Whether `wanted` bytes would overwrite records that are not taken out yet. Reads the tail, whose
// cache line the drainer writes, only when the room that it showed last is used up.
static int is_full(struct ct_ring *r, uint64_t head, uint64_t wanted) {
    if (__builtin_expect(head + wanted <= r->room_until, 1))
        return 0;
    r->room_until = atomic_load_explicit(&r->shared->tail, memory_order_acquire) + r->mask + 1;
    return head + wanted > r->room_until;
}

// The fields that few events have. Absent ones are cleared: the journal outlives the process, and
// nothing that lay in this memory before may get into it.
CT_COLD void copy_rare_fields(struct ct_event *to, const struct ct_event *from) {
#define CT_FIELD(number, member, ctype, coding, json)        \
    if (offsetof(struct ct_event, member) >= CT_RECORD_LONG) \
        to->member = CT_GET(from, member);
#include <cutrace/format/events.def>
}

// Field by field: a wide load of fields that were stored one by one a moment ago would wait for all
// of the stores (no store forwarding).
static inline void copy_record(struct ct_event *to, const struct ct_event *from, uint32_t bytes) {
    to->present = from->present;
    to->t_ns = from->t_ns;
    to->ptr = from->ptr;
    to->op = from->op;
    to->api = from->api;
    to->thread = from->thread;
    to->result = from->result;
    if (bytes == CT_RECORD_SHORT)
        return;
    to->device = from->device;
    to->stack = from->stack;
    to->bytes = from->bytes;
    to->reserved_bytes = from->reserved_bytes;
    to->allocated_bytes = from->allocated_bytes;
    if (bytes == CT_RECORD_BLOCK)
        return;
    to->context = from->context;
    to->space = from->space;
    to->flags = from->flags;
    to->duration_ns = from->duration_ns;
    if (bytes == CT_RECORD_MIDDLE)
        return;
    to->stream = from->stream;
    to->pool = from->pool;
    if (bytes == CT_RECORD_WHOLE)
        copy_rare_fields(to, from);
}

// Writes a record at the head (R4) and moves the head over it. Returns the new head.
static inline uint64_t append(struct ct_ring *r, uint64_t head, const struct ct_event *event) {
    const uint32_t bytes = ct_journal_record_bytes(event->present);
    uint64_t at = head & r->mask;
    if (__builtin_expect(at + bytes > r->mask + 1, 0)) {
        *(uint64_t *)(void *)(r->data + at) = 0;
        head = (head | r->mask) + 1;
        at = 0;
    }
    CT_ASSERT(event->t_ns > atomic_load_explicit(&r->shared->last_ns, memory_order_relaxed)); // R2
    CT_ASSERT(head + bytes - atomic_load(&r->shared->tail) <= r->mask + 1);                   // R3
    copy_record((struct ct_event *)(void *)(r->data + at), event, bytes);
    atomic_store_explicit(&r->shared->last_ns, event->t_ns, memory_order_relaxed);
    atomic_store_explicit(&r->shared->head, head + bytes, memory_order_release);
    return head + bytes;
}

// Reports what was lost before the next event. If no event follows, the drainer reports it.
CT_COLD uint64_t append_lost(struct ct_ring *r, uint64_t head) {
    const uint64_t lost = atomic_exchange_explicit(&r->shared->lost, 0, memory_order_relaxed);
    struct ct_event e = {.present = 0};
    if (!lost)
        return head;
    CT_SET(&e, op, CT_OP_LOST);
    CT_SET(&e, thread, atomic_load_explicit(&r->shared->thread, memory_order_relaxed));
    CT_SET(&e, count, lost);
    CT_SET(&e, t_ns, ct_ring_now());
    return append(r, head, &e);
}

// Announces and times the event: steps 1 to 3 of publishing.
static inline void announce(struct ct_ring *r, struct ct_event *event) {
    struct ct_journal_ring *const s = r->shared;
    if (!CT_HAS(event, t_ns)) {
        // R1: the clock is read after this, and is not below a time that a drainer has reached.
        announce_bound(s, atomic_load_explicit(&ct_ring_watermark, memory_order_relaxed));
        CT_SET(event, t_ns, ct_ring_now());
        return;
    }
    announce_bound(s, event->t_ns);
    if (event->t_ns < atomic_load_explicit(&ct_ring_watermark, memory_order_seq_cst) ||
        event->t_ns <= atomic_load_explicit(&s->last_ns, memory_order_relaxed))
        event->t_ns = ct_ring_now();
}

// A record, a LOST record before it, and the gap at the end of the ring that either may leave.
#define MOST_BYTES (4 * sizeof(struct ct_event))

// The LOST record comes first, so the event is timed again after it (R2).
CT_COLD uint64_t publish_lost(struct ct_ring *r, struct ct_event *event, uint64_t head) {
    struct ct_event untimed = {.present = 0};
    announce(r, &untimed);
    head = append_lost(r, head);
    event->present &= ~CT_BIT(t_ns);
    CT_SET(event, t_ns, ct_ring_now());
    return head;
}

static inline int publish(struct ct_ring *r, struct ct_event *event) {
    struct ct_journal_ring *const s = r->shared;
    const uint64_t lost = atomic_load_explicit(&s->lost, memory_order_relaxed);
    const uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    const uint64_t last_ns = atomic_load_explicit(&s->last_ns, memory_order_relaxed);
    uint64_t new_head = head;
    // The ring's previous owner moved its time ahead, to be strictly increasing.
    if (self.last_now < last_ns)
        self.last_now = last_ns;
    r->begun_at = head;
    if (is_full(r, head, MOST_BYTES))
        return -ENOSPC;
    if (__builtin_expect(lost != 0, 0))
        r->begun_at = new_head = publish_lost(r, event, head);
    else
        announce(r, event);
    CT_SET(event, thread, atomic_load_explicit(&s->thread, memory_order_relaxed));
    if (!event->thread)
        event->present &= ~CT_BIT(thread);
    new_head = append(r, new_head, event);
    atomic_store_explicit(&s->announced, CT_JOURNAL_IDLE, memory_order_release);
    return ((head ^ new_head) & r->told) != 0;
}

int ct_ring_publish(struct ct_event *event) {
    struct ct_ring *r = ct_ring_claim();
    if (!r)
        return -ENOMEM;
    if (atomic_load_explicit(&r->publishing, memory_order_relaxed))
        return -EBUSY;
    atomic_store_explicit(&r->publishing, (uintptr_t)__builtin_frame_address(0),
                          memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    const int rc = publish(r, event);
    atomic_signal_fence(memory_order_seq_cst);
    end_publishing(r);
    return rc;
}

uintptr_t ct_ring_publishing(void) {
    const struct ct_ring *const r = ct_ring_claimed();
    return r ? atomic_load_explicit(&r->publishing, memory_order_relaxed) : 0;
}

void ct_ring_give_up(void) {
    struct ct_ring *const r = ct_ring_claimed();
    if (!r)
        return;
    atomic_store_explicit(&r->shared->announced, CT_JOURNAL_IDLE, memory_order_release);
    if (atomic_load_explicit(&r->shared->head, memory_order_relaxed) == r->begun_at) // R4
        ct_ring_count_lost(1);
    end_publishing(r);
}

uint64_t ct_ring_announced_bound(struct ct_ring *ring) {
    const int saved = errno;
    uint64_t bound = atomic_load(&ring->shared->announced);
    // Publishing takes tens of nanoseconds, unless the thread loses its core meanwhile.
    for (int i = 0; i < 200 && bound != CT_JOURNAL_IDLE; i++)
        bound = atomic_load(&ring->shared->announced);
    // A thread that was cancelled or killed while it published must not hold up the others for
    // ever. (No owner: another program has cleared the page.)
    const uint32_t tid = (uint32_t)atomic_load(&ring->shared->owner);
    if (bound != CT_JOURNAL_IDLE && (!tid || thread_has_ended(tid)))
        bound = CT_JOURNAL_IDLE;
    errno = saved;
    return bound;
}

static int is_empty(const struct ct_ring *r) {
    return atomic_load(&r->shared->head) == atomic_load(&r->shared->tail);
}

int ct_ring_is_empty(void) {
    const struct ct_ring *r = ct_ring_claimed();
    return !r || is_empty(r);
}

int ct_ring_is_apart(void) {
    const struct ct_ring *r = ct_ring_claimed();
    return r && r->told == ~UINT64_C(0);
}

int ct_rings_are_empty(void) {
    const struct ct_ring *r = ct_rings();
    while (r && is_empty(r))
        r = r->next;
    return !r;
}

void ct_ring_count_lost(uint64_t n) {
    struct ct_ring *r = ct_ring_claimed();
    atomic_fetch_add_explicit(r ? &r->shared->lost : &ct_ring_lost_without_ring, n,
                              memory_order_relaxed);
}

void ct_rings_reinit_child(void) {
    struct ct_ring *next;
    for (struct ct_ring *r = atomic_exchange(&rings, NULL); r; r = next) {
        next = r->next;
        ct_pages_unmap(r->shared, r->mapped); // unmaps; the file is the parent's
    }
    atomic_store(&handles.used, 0);
    atomic_store(&threads, 0);
    atomic_fetch_add(&generation, 1);
    self.ring = NULL;
}

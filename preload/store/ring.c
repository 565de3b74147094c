// SPDX-License-Identifier: Apache-2.0
// One ring of events for each thread that records: the thread puts in, whoever holds the drain lock
// takes out.
//
// How a drainer gets all events in the order of time without stopping anybody:
//   thread:   announced = a bound; fence; read the clock; write the record; move the head (release);
//             announced = quiet
//   drainer:  watermark = T = clock; fence; limit = min(T, all announced); read all heads;
//             take events < limit
// Take an event of time t < limit <= T. Its thread read the clock before the drainer did, hence
// announced before that. So the drainer saw either the announcement (then limit <= bound <= t: no),
// or what the thread stored after publishing (then its head, read later, has the event). An event
// whose time was taken earlier, by ct_now, announces that time and looks at the watermark
// afterwards: if a drainer may have gone past it, the event is timed again (either the drainer sees
// the announcement or the thread sees the watermark).
//
// The fences: sequentially consistent stores and loads on both sides, or, where the kernel has membarrier(2), one that the drainer makes all
// threads of the process execute. The threads then need none of their own, only the compiler's.
#include "store/ring.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cutrace/format/hot.h>

#include "base/pages.h"
#include "store/journal.h"

_Atomic uint64_t ct_watermark;
_Atomic uint64_t ct_ringless_lost;

static struct ct_ring *_Atomic rings;
static _Atomic uint32_t claims;
static _Atomic uint32_t threads;
// Changes in a forked child, so that its thread-local pointers to the parent's rings are void.
static _Atomic uint32_t generation = 1;

static __thread struct {
    struct ct_ring *ring;
    uint32_t generation;
    uint32_t busy;
    uint64_t last_now;
} self __attribute__((tls_model("initial-exec")));

// ---- fences ---------------------------------------------------------------------------------

static _Atomic uintptr_t alone; // see below

// Since Linux 4.14 (linux/membarrier.h, which older headers lack).
enum { MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED = 1 << 4 };
static _Atomic int drainer_fences;

static int membarrier(int command) {
    const int saved = errno;
    const long rc = syscall(SYS_membarrier, command, 0, 0);
    errno = saved;
    return (int)rc;
}

static void (*_Atomic open_journal)(void);

void ct_rings_set_open(void (*open)(void)) {
    atomic_store(&open_journal, open);
}

void ct_rings_init(void) {
    atomic_store(&drainer_fences, !membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED));
}

int ct_rings_fence(void) {
    if (!atomic_load_explicit(&drainer_fences, memory_order_relaxed) ||
        !membarrier(MEMBARRIER_PRIVATE_EXPEDITED))
        return 0;
    // Forbidden since then. Threads may be inside that still relied on it: another time.
    atomic_store(&alone, 0);
    atomic_store(&drainer_fences, 0);
    return -EAGAIN;
}

// The announcement, and the threads' half of the fence.
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

// ---- a thread alone -------------------------------------------------------------------------
// Of two threads that hand an address on to each other, the later one must have the later time. That takes a clock
// that is not read before what the thread has seen until then (ct_clock_read), which costs as much as half a hook: the
// processor has to come to an end with everything else first. A thread that alone records has nobody to be late for.
//
// `alone` is the ring of such a thread. Who is not it clears `alone` before it reads the clock, and looks again
// afterwards. So, if the thread alone has seen anything that another one did after an event, then it sees `alone`
// cleared when it looks for it, which it does later (x86 neither reads nor writes out of this order, and elsewhere both
// clocks are the same). The drainer sets `alone` in two steps, between which anybody may clear it, and the second one
// SETTLED_NS after the first: an event whose thread has not seen the first is then older than anything that the
// processor may have done ahead of its time.
// What the head of this file needs, the announcement before the clock, holds as well: a thread that the drainer's fence
// interrupts has either finished with the clock, and announced before, or reads it again. Where there is no such
// fence, nobody is alone.

#define SETTLED_NS UINT64_C(100000)
#define ABOUT_TO_BE 1u // in the place of a pointer's low bit

int ct_ring_is_alone(void) {
    return self.ring && atomic_load_explicit(&alone, memory_order_acquire) == (uintptr_t)self.ring;
}

static uint64_t clock_among_others(void) {
    const uintptr_t soon = (uintptr_t)self.ring | ABOUT_TO_BE;
    for (;;) {
        const uintptr_t who = atomic_load(&alone);
        if (who && who != soon)
            atomic_store(&alone, 0);
        const uint64_t t = ct_clock_read();
        const uintptr_t now = atomic_load(&alone);
        if (!now || now == soon)
            return t;
    }
}

uint64_t ct_now(void) {
    const uint64_t t = ct_ring_is_alone() ? ct_clock_read_unordered() : clock_among_others();
    self.last_now = t > self.last_now ? t : self.last_now + 1;
    return self.last_now;
}

// The only ring into which something has come since the last look; NULL: none or several.
static struct ct_ring *only_one(void) {
    struct ct_ring *one = NULL;
    int n = 0;
    for (struct ct_ring *r = ct_rings(); r; r = r->next) {
        const uint64_t head = atomic_load_explicit(&r->shared->head, memory_order_relaxed);
        if (head != r->looked_at) {
            one = r;
            n++;
        }
        r->looked_at = head;
    }
    return n == 1 ? one : NULL;
}

void ct_rings_look(void) {
    static uint64_t since_ns;
    struct ct_ring *const one = only_one();
    uintptr_t soon = (uintptr_t)one | ABOUT_TO_BE;
    const uintptr_t who = atomic_load(&alone);
    if (!one || who == (uintptr_t)one || !atomic_load(&drainer_fences))
        return;
    if (who != soon) {
        since_ns = ct_clock_read();
        atomic_store(&alone, soon);
    } else if (ct_clock_read() - since_ns > SETTLED_NS) {
        atomic_compare_exchange_strong(&alone, &soon, (uintptr_t)one);
    }
}

// ---- claiming --------------------------------------------------------------------------------

const struct ct_journal_thread *ct_thread(uint32_t number) {
    const struct ct_journal *j = ct_journal_get();
    const struct ct_journal_thread *t = number ? ct_journal_get_thread(number) : NULL;
    return j && t && t->number == number ? t : NULL;
}

// A new number for the calling thread; 0 when there is no place for it.
static uint32_t thread_number(uint32_t tid) {
    const uint32_t number = atomic_fetch_add(&threads, 1) + 1;
    struct ct_journal_thread *t = ct_journal_get_thread(number);
    if (!t)
        return 0;
    t->number = 0; // of the thread that had the place before
    t->tid = tid;
    (void)prctl(PR_GET_NAME, t->name, 0, 0, 0);
    t->number = number;
    return number;
}

static int thread_is_gone(uint32_t tid) {
    return syscall(SYS_tgkill, getpid(), tid, 0) == -1 && errno == ESRCH;
}

// A ring whose thread has ended. The claim number in `owner` makes a recycled tid another owner.
static struct ct_ring *ring_handed_on(uint64_t me) {
    int looks = 64; // each is a system call
    for (struct ct_ring *r = ct_rings(); r && looks; r = r->next) {
        uint64_t owner = atomic_load_explicit(&r->shared->owner, memory_order_acquire);
        const uint32_t tid = (uint32_t)owner;
        if (tid && tid != (uint32_t)me) {
            looks--;
            if (!thread_is_gone(tid))
                continue;
        }
        if (atomic_compare_exchange_strong(&r->shared->owner, &owner, me))
            return r;
    }
    return NULL;
}

static struct ct_arena handles = {.bytes = CT_JOURNAL_MAX_RINGS * sizeof(struct ct_ring)};

static struct ct_ring *ring_new(uint64_t me) {
    struct ct_ring *r = ct_arena_alloc(&handles, sizeof *r);
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r); // a child uses its parent's arena again
    if (!(r->shared = ct_journal_add_ring(&r->mapped)))
        return NULL;
    r->data = (uint8_t *)r->shared + CT_JOURNAL_PAGE;
    r->mask = r->mapped - CT_JOURNAL_PAGE - 1;
    atomic_init(&r->shared->announced, CT_JOURNAL_IDLE);
    atomic_store_explicit(&r->shared->owner, me, memory_order_release);
    r->next = atomic_load(&rings);
    while (!atomic_compare_exchange_weak(&rings, &r->next, r))
        ;
    return r;
}

static __attribute__((noinline)) struct ct_ring *ring_claim(void) {
    const int saved = errno;
    const uint32_t tid = (uint32_t)syscall(SYS_gettid);
    const uint64_t me = (uint64_t)(atomic_fetch_add(&claims, 1) + 1) << 32 | tid;
    void (*open)(void) = atomic_load(&open_journal);
    if (open)
        open(); // rings lie in the journal
    struct ct_ring *r = ring_handed_on(me);
    if (!r)
        r = ring_new(me);
    if (r) {
        (void)atomic_load_explicit(&r->shared->head,
                                   memory_order_acquire); // what the one before left
        atomic_store(&alone, 0);
        // It may have been ended in the middle of things.
        atomic_store_explicit(&r->shared->announced, CT_JOURNAL_IDLE, memory_order_release);
        atomic_store_explicit(&r->unwinding, 0, memory_order_release);
        r->claim = (uint32_t)(me >> 32);
        atomic_store_explicit(&r->shared->thread, thread_number(tid), memory_order_relaxed);
        self.ring = r;
        self.generation = atomic_load(&generation);
    }
    errno = saved;
    return r;
}

struct ct_ring *ct_ring_if_mine(void) {
    return self.generation == atomic_load_explicit(&generation, memory_order_relaxed) ? self.ring
                                                                                      : NULL;
}

struct ct_ring *ct_ring_mine(void) {
    struct ct_ring *r = ct_ring_if_mine();
    return r ? r : ring_claim();
}

// Whether `wanted` bytes would overwrite what is not taken out yet. Looks at the tail only when the place
// that it left the last time is used up: its line belongs to the drainer.
static int ring_is_full(struct ct_ring *r, uint64_t head, uint64_t wanted) {
    if (__builtin_expect(head + wanted <= r->room_until, 1))
        return 0;
    r->room_until = atomic_load_explicit(&r->shared->tail, memory_order_acquire) + r->mask + 1;
    return head + wanted > r->room_until;
}

// What few events have. The journal outlives the process: whatever else lay in this memory does not get into it.
CT_COLD void copy_rest(struct ct_event *to, const struct ct_event *from) {
#define CT_FIELD(number, member, ctype, coding, json)        \
    if (offsetof(struct ct_event, member) >= CT_RECORD_LONG) \
        to->member = CT_HAS(from, member) ? from->member : 0;
#include <cutrace/format/events.def>
}

// Field by field: what was stored a moment ago in small parts is not there yet for a load of all of them, which would wait.
static inline void copy(struct ct_event *to, const struct ct_event *from, uint32_t bytes) {
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
        copy_rest(to, from);
}

// Puts a record at the head and returns the head behind it. A record lies in one piece: one that would go
// over the end of the ring begins at its start.
static inline uint64_t fill(struct ct_ring *r, uint64_t head, const struct ct_event *event) {
    const uint32_t bytes = ct_journal_record_bytes(event->present);
    uint64_t at = head & r->mask;
    if (__builtin_expect(at + bytes > r->mask + 1, 0)) {
        *(uint64_t *)(void *)(r->data + at) = 0;
        head = (head | r->mask) + 1;
        at = 0;
    }
    copy((struct ct_event *)(void *)(r->data + at), event, bytes);
    atomic_store_explicit(&r->shared->last_ns, event->t_ns, memory_order_relaxed);
    atomic_store_explicit(&r->shared->head, head + bytes, memory_order_release);
    return head + bytes;
}

// Tells what was lost before the next event. The drainer does it if no event follows.
CT_COLD uint64_t fill_lost(struct ct_ring *r, uint64_t head) {
    const uint64_t lost = atomic_exchange_explicit(&r->shared->lost, 0, memory_order_relaxed);
    struct ct_event e = {.present = 0};
    if (!lost)
        return head;
    CT_SET(&e, op, CT_OP_LOST);
    CT_SET(&e, thread, atomic_load_explicit(&r->shared->thread, memory_order_relaxed));
    CT_SET(&e, count, lost);
    CT_SET(&e, t_ns, ct_now());
    return fill(r, head, &e);
}

// Announces and times the event. The order of the three steps is what the head of this file proves.
static inline void announce(struct ct_ring *r, struct ct_event *event) {
    struct ct_journal_ring *const s = r->shared;
    if (!CT_HAS(event, t_ns)) {
        // Any time that a drainer has reached is a bound for the clock that is read after it.
        announce_bound(s, atomic_load_explicit(&ct_watermark, memory_order_relaxed));
        CT_SET(event, t_ns, ct_now());
        return;
    }
    announce_bound(s, event->t_ns);
    if (event->t_ns < atomic_load_explicit(&ct_watermark, memory_order_seq_cst) ||
        event->t_ns <= atomic_load_explicit(&s->last_ns, memory_order_relaxed))
        event->t_ns = ct_now();
}

// A record, one for losses, and the gap at the end that either may leave.
#define MOST_BYTES (4 * sizeof(struct ct_event))

// Not with the event's own time: the LOST record must come first, so the event is timed after it.
CT_COLD uint64_t publish_loss(struct ct_ring *r, struct ct_event *event, uint64_t head) {
    struct ct_event untimed = {.present = 0};
    announce(r, &untimed);
    head = fill_lost(r, head);
    event->present &= ~CT_BIT(t_ns);
    CT_SET(event, t_ns, ct_now());
    return head;
}

static inline int publish(struct ct_ring *r, struct ct_event *event) {
    struct ct_journal_ring *const s = r->shared;
    const uint64_t lost = atomic_load_explicit(&s->lost, memory_order_relaxed);
    const uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
    const uint64_t last_ns = atomic_load_explicit(&s->last_ns, memory_order_relaxed);
    uint64_t behind = head;
    if (self.last_now <
        last_ns) // the ring was another thread's, whose clock reading was bumped ahead
        self.last_now = last_ns;
    if (ring_is_full(r, head, MOST_BYTES))
        return -ENOSPC;
    if (__builtin_expect(lost != 0, 0))
        behind = publish_loss(r, event, head);
    else
        announce(r, event);
    CT_SET(event, thread, atomic_load_explicit(&s->thread, memory_order_relaxed));
    if (!event->thread)
        event->present &= ~CT_BIT(thread);
    behind = fill(r, behind, event);
    atomic_store_explicit(&s->announced, CT_JOURNAL_IDLE, memory_order_release);
    return ((head ^ behind) & ~(r->mask >> 2)) != 0;
}

int ct_ring_publish(struct ct_event *event) {
    struct ct_ring *r = ct_ring_mine();
    if (!r)
        return -ENOMEM;
    if (self.busy)
        return -EBUSY;
    self.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    const int rc = publish(r, event);
    atomic_signal_fence(memory_order_seq_cst);
    self.busy = 0;
    return rc;
}

uint64_t ct_ring_bound(struct ct_ring *ring) {
    const int saved = errno;
    uint64_t bound = atomic_load(&ring->shared->announced);
    // Publishing takes tens of nanoseconds, unless the thread loses its core in between.
    for (int i = 0; i < 200 && bound != CT_JOURNAL_IDLE; i++)
        bound = atomic_load(&ring->shared->announced);
    // A thread that was cancelled or killed in there must not hold up the others for ever.
    const uint32_t tid = (uint32_t)atomic_load(&ring->shared->owner);
    if (bound != CT_JOURNAL_IDLE && tid && thread_is_gone(tid))
        bound = CT_JOURNAL_IDLE;
    errno = saved;
    return bound;
}

static int is_empty(const struct ct_ring *r) {
    return atomic_load(&r->shared->head) == atomic_load(&r->shared->tail);
}

int ct_ring_is_empty(void) {
    const struct ct_ring *r = ct_ring_if_mine();
    return !r || is_empty(r);
}

int ct_rings_are_empty(void) {
    const struct ct_ring *r = ct_rings();
    while (r && is_empty(r))
        r = r->next;
    return !r;
}

void ct_ring_lose(uint64_t n) {
    struct ct_ring *r = ct_ring_if_mine();
    atomic_fetch_add_explicit(r ? &r->shared->lost : &ct_ringless_lost, n, memory_order_relaxed);
}

void ct_rings_forked(void) {
    struct ct_ring *next;
    for (struct ct_ring *r = atomic_exchange(&rings, NULL); r; r = next) {
        next = r->next;
        ct_pages_unmap(r->shared, r->mapped); // the mapping; the file is the parent's
    }
    atomic_store(&handles.used, 0);
    atomic_store(&threads, 0);
    atomic_store(&alone, 0);
    atomic_fetch_add(&generation, 1);
    self.ring = NULL;
    self.busy = 0;
}

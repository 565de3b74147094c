// SPDX-License-Identifier: Apache-2.0
// Measures what comes behind the rings, alone and in one thread: drain_cost STREAM EVENTS RINGS.
// STREAM: peer (the work of peer_work.c), liveN (about N allocations alive, freed at random) or one
// of streams.h. CUTRACE_OUTPUT says where the trace goes.
//
// Events are put into the rings as the threads of a program would do it, some thousands at a time,
// and drained. Prints the drainer's processor time for an event, and the longest drain. Where other
// programs disturb times, instructions tell:
//   valgrind --tool=callgrind --toggle-collect=ct_drain_run
//     build/tests/bench/drain_cost peer 300000 2
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/options.h"
#include "record/tracing.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/drain.h"
#include "write/drain_lock.h"

#include "streams.h"

enum {
    AT_A_TIME = 3000,
    RINGS_MAX = 64,
    DEPTH = 40,
    PEER_LIVE = 4096,
    PEER_STACKS = 256,
    RANDOM_STACKS = 300
};

static void fail(const char *what) {
    fprintf(stderr, "drain_cost: %s\n", what);
    exit(1);
}

// ---- the stream of peer_work.c ------------------------------------------------------------------
// Each thread frees one allocation and makes another, at the same address; one give-back in 64 has
// its duration amended.

static struct peer {
    uint64_t freed_ns; // of the last give-back
    enum { TO_GIVE, TO_AMEND, TO_TAKE } next;
    unsigned gives, slot;
    uint8_t is_live[PEER_LIVE];
} peers[RINGS_MAX];
static unsigned peer; // whose turn it is

static void peer_begin(void) {
    memset(peers, 0, sizeof peers);
}

static void peer_amend(struct ct_event *e, uint64_t freed_ns) {
    *e = (struct ct_event){.present = 0};
    CT_SET(e, t_ns, now_ns);
    CT_SET(e, op, CT_OP_AMEND);
    CT_SET(e, amends_ns, freed_ns);
    CT_SET(e, duration_ns, 90);
}

static void peer_next(struct ct_event *e) {
    struct peer *p = &peers[peer];
    now_ns += 40 + draw(40);
    if (p->next == TO_AMEND) {
        peer_amend(e, p->freed_ns);
        p->next = TO_TAKE;
        return;
    }
    if (p->next == TO_GIVE)
        p->slot = (unsigned)draw(PEER_LIVE);
    if (p->next == TO_GIVE && p->is_live[p->slot]) {
        as_free(e, 0);
        p->freed_ns = now_ns;
        p->next = ++p->gives % 64 ? TO_TAKE : TO_AMEND;
    } else {
        as_alloc(e, 0, (uint32_t)(1 + draw(300)), (uint32_t)(1 + draw(PEER_STACKS)));
        p->is_live[p->slot] = 1;
        p->next = TO_GIVE;
    }
    e->present &= ~(CT_BIT(flags) | CT_BIT(stream));
    CT_SET(e, ptr, UINT64_C(0x55d0c0000000) + (uint64_t)(p - peers) * (64 << 20) + p->slot * 32);
}

static const struct stream peer_stream = {"peer", peer_begin, peer_next};

// ---- the stream liveN ---------------------------------------------------------------------------
// Each call takes one of 2N places, or gives it back: N are taken in the mean, and any of them may
// be given back next. Each stack has one size, so that a trace of 256 MiB holds tens of millions of
// events.

static uint64_t live_wanted;
static uint8_t *is_taken; // by place

static void random_begin(void) {
    if (!(is_taken = calloc(2 * live_wanted, sizeof *is_taken)))
        fail("no memory");
}

static void random_next(struct ct_event *e) {
    const uint64_t place = draw(2 * live_wanted);
    const uint32_t stack = (uint32_t)(1 + draw(RANDOM_STACKS));
    now_ns += 100 + draw(1000);
    if (is_taken[place])
        as_free(e, 0);
    else
        as_alloc(e, 0, stack * 13, stack);
    is_taken[place] = !is_taken[place];
    CT_SET(e, ptr, UINT64_C(0x7f0000000000) + place * (2 << 20));
}

static const struct stream random_stream = {"live", random_begin, random_next};

// ---- rings --------------------------------------------------------------------------------------

static struct ct_ring *rings[RINGS_MAX];
static pthread_barrier_t claimed, ended;

// No thread beside this one: linked with --wrap=ct_writer_thread_start.
int __wrap_ct_writer_thread_start(void);
int __wrap_ct_writer_thread_start(void) {
    return -1;
}

static void *claim(void *place) {
    (void)ct_tracing_is_on();
    if (!(*(struct ct_ring **)place = ct_ring_claim()))
        fail("no ring");
    pthread_barrier_wait(&claimed);
    pthread_barrier_wait(&ended);
    return NULL;
}

static void claim_all(unsigned n) {
    pthread_barrier_init(&claimed, NULL, n + 1);
    pthread_barrier_init(&ended, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, claim, &rings[i]))
            fail("no thread");
    }
    pthread_barrier_wait(&claimed);
}

// As ring.c does it, but for the time, which is the stream's.
static void publish(struct ct_ring *r, struct ct_event *e) {
    uint64_t head = r->shared->head;
    CT_SET(e, thread, r->shared->thread);
    const uint32_t bytes = ct_journal_record_bytes(e->present);
    if ((head & r->mask) + bytes > r->mask + 1) {
        memset(r->data + (head & r->mask), 0, 8);
        head = (head | r->mask) + 1;
    }
    if (head + bytes - r->shared->tail > r->mask)
        fail("a ring is full");
    memcpy(r->data + (head & r->mask), e, bytes);
    r->shared->last_ns = e->t_ns;
    r->shared->head = head + bytes;
}

// ---- all of it ----------------------------------------------------------------------------------

static uint32_t stack_ids[COLD_STACKS + 1];

static void make_stacks(void) {
    uint64_t frames[DEPTH];
    for (uint64_t i = 1; i <= COLD_STACKS; i++) {
        for (uint64_t k = 0; k < DEPTH; k++)
            frames[k] = UINT64_C(0x7f0000000000) + (k < 8 ? i >> k : 0) * 64 + k * 4096;
        stack_ids[i] = ct_stack_table_intern(frames, DEPTH);
    }
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t drain(enum ct_drain_how how) {
    struct ct_signal_guard shield;
    if (ct_drain_lock_try(&shield))
        fail("locked");
    const uint64_t start = cpu_ns();
    ct_drain_run(how);
    const uint64_t end = cpu_ns();
    ct_drain_lock_release(&shield);
    return end - start;
}

static const struct stream *stream_of(const char *name) {
    const struct stream *all[] = {&peer_stream, &streams[0], &streams[1]};
    for (unsigned i = 0; i < 3; i++)
        if (!strcmp(name, all[i]->name))
            return all[i];
    if (sscanf(name, "live%lu", &live_wanted) == 1 && live_wanted && live_wanted <= 1u << 30)
        return &random_stream;
    return NULL;
}

// One event with the process's own numbers.
static void next(const struct stream *s, unsigned ring) {
    static struct ct_event e;
    peer = ring;
    s->next(&e);
    if (CT_HAS(&e, stack))
        e.stack = stack_ids[e.stack];
    if (CT_HAS(&e, api))
        e.api = ct_name_intern(e.op == CT_OP_FREE ? "cuMemFree_v2" : "cuMemAlloc_v2");
    publish(rings[ring], &e);
}

int main(int argc, char **argv) {
    const struct stream *s = argc == 4 ? stream_of(argv[1]) : NULL;
    const unsigned n = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
    if (!s || !n || n > RINGS_MAX) {
        fputs("usage: drain_cost peer|iid|periodic|liveN EVENTS RINGS\n", stderr);
        return 2;
    }
    const uint64_t events = strtoull(argv[2], NULL, 10);
    uint64_t all_ns = 0, longest = 0;
    claim_all(n);
    make_stacks();
    stream_begin(s);
    for (uint64_t done = 0; done < events;) {
        for (unsigned i = 0; i < AT_A_TIME * n && done < events; i++, done++)
            next(s, i % n);
        const uint64_t ns = drain(CT_DRAIN_EVENTS);
        all_ns += ns;
        longest = ns > longest ? ns : longest;
    }
    all_ns += drain(CT_DRAIN_FINAL);
    printf("behind %-8s %u rings: %.1f ns an event, longest drain %.2f ms\n", argv[1], n,
           (double)all_ns / (double)events, (double)longest / 1e6);
    return 0;
}

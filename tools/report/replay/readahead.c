// SPDX-License-Identifier: Apache-2.0
// A ring of batches between the thread that reads and the thread that replays. Each batch belongs
// to one of them.
#include "replay/readahead.h"

#include <cutrace/format/assert.h>
#include <cutrace/model/readings.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/workers.h"

enum {
    BATCHES = 24,
    // Batches that were read after the one that is handed on.
    HELD_BACK = CT_READAHEAD_EVENTS / CT_READAHEAD_BATCH,
    // When the ring is full, reading resumes when only so many batches are ready; when none is
    // ready, so many are waited for: to wake a thread costs as much as a batch.
    RESUME_AT = (BATCHES - HELD_BACK) / 2,
    OWN_AHEAD = 8,     // steps
    FEW_EVENTS = 4096, // so many are read before a thread would have started
    READINGS = 256,    // that are remembered
};

// A reading in a batch that is not handed on yet.
struct reading {
    struct ct_readahead_step *step;
    uint64_t batch; // its number
};

struct ct_readahead {
    struct ct_trace *trace;
    struct ct_readahead_batch batch[BATCHES];
    unsigned held_back, ring; // batches; and how many of them are used by turns
    int has_thread, has_readings;
    atomic_int *spare; // NULL: nobody else works
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    // Under the lock: how many batches were read and taken. Those between, without the ones that
    // are held back, are ready; the last one taken is in use.
    uint64_t filled, taken;
    int ended; // the last batch was read
    int stop;
    // Of the thread that reads: the latest readings, as a ring.
    struct reading reading[READINGS];
    uint64_t readings;
};

// Adds an allocation to the readings that were taken during its call, as far as they are held back.
// That depends on the numbers of the events, never on the speed of the threads or on where a replay
// began. (Only the objects of a checkpoint, which are no events, may lie between.)
static void add_to_readings(struct ct_readahead *a, const struct ct_readahead_step *s,
                            uint64_t batch) {
    const struct ct_event *e = &s->event;
    const uint64_t bytes = ct_event_allocated_bytes(e);
    const int device = ct_event_device_index(e);
    if (!bytes)
        return;
    for (uint64_t i = a->readings; i > 0 && a->readings - i < READINGS; i--) {
        const struct reading *r = &a->reading[(i - 1) % READINGS];
        if (r->batch + a->held_back < batch || s->number - r->step->number > CT_READAHEAD_EVENTS ||
            !ct_event_was_under_way(e, r->step->event.t_ns))
            break;
        if (ct_event_device_index(&r->step->event) == device)
            r->step->ahead += bytes;
    }
}

static void note_step(struct ct_readahead *a, struct ct_readahead_step *s, uint64_t batch) {
    const struct ct_event *e = &s->event;
    s->ahead = 0;
    if (s->step != CT_STEP_EVENT || !a->has_readings)
        return;
    if (CT_HAS(e, duration_ns) && a->readings)
        add_to_readings(a, s, batch);
    if (CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes))
        a->reading[a->readings++ % READINGS] = (struct reading){s, batch};
}

// Begins to take the cache lines of a step from the processor that read them last. Where the two
// have no cache in common, waiting for that at each write took half of this thread's time. (Most
// events have only fields at the beginning.)
static void own_soon(const struct ct_readahead_step *s) {
    for (unsigned byte = 0; byte < 192; byte += 64)
#ifdef __x86_64__ // __builtin_prefetch would ask for a copy to read, unless the processor is named
        __asm__ volatile("prefetchw %0" : : "m"(*((const char *)s + byte)));
#else
        __builtin_prefetch((const char *)s + byte, 1);
#endif
}

// Reads the batch with a number. 0: it has the end of the trace.
static int fill_batch(struct ct_readahead *a, uint64_t number) {
    struct ct_readahead_batch *b = &a->batch[number % a->ring];
    for (b->n = 0; b->n < CT_READAHEAD_BATCH; b->n++) {
        struct ct_readahead_step *s = &b->step[b->n];
        if (a->has_thread && b->n + OWN_AHEAD < CT_READAHEAD_BATCH)
            own_soon(s + OWN_AHEAD);
        s->step = ct_trace_step(a->trace, &s->event, &s->number);
        note_step(a, s, number);
        if (s->step == CT_STEP_END) {
            b->n++;
            return 0;
        }
    }
    return 1;
}

static uint64_t count_ready(const struct ct_readahead *a) {
    const uint64_t there = a->filled - a->taken;
    if (a->ended)
        return there;
    return there > a->held_back ? there - a->held_back : 0;
}

static void *read_batches(void *ahead) {
    struct ct_readahead *a = ahead;
    pthread_mutex_lock(&a->lock);
    while (!a->ended) {
        if (a->filled - a->taken == BATCHES - 1) // the last batch is in use
            while (!a->stop && count_ready(a) > RESUME_AT)
                pthread_cond_wait(&a->moved, &a->lock);
        if (a->stop)
            break;
        CT_ASSERT(a->filled - a->taken < BATCHES - 1);
        const uint64_t number = a->filled;
        pthread_mutex_unlock(&a->lock);
        const int more = fill_batch(a, number);
        pthread_mutex_lock(&a->lock);
        const uint64_t ready = count_ready(a);
        a->filled++;
        a->ended = !more;
        if ((ready < RESUME_AT && count_ready(a) >= RESUME_AT) || a->ended)
            pthread_cond_signal(&a->moved);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static int start_thread(struct ct_readahead *a) {
    a->ring = BATCHES;
    a->has_thread = 1; // (the thread reads it, too)
    if (pthread_create(&a->thread, NULL, read_batches, a))
        a->has_thread = 0;
    return a->has_thread;
}

struct ct_readahead *ct_readahead_begin(struct ct_trace *t, atomic_int *spare, int has_readings) {
    struct ct_readahead *a = ct_heap_alloc_zeroed(1, sizeof *a);
    a->trace = t;
    a->has_readings = has_readings;
    a->held_back = has_readings ? HELD_BACK : 0;
    a->ring = a->held_back + 1; // few batches stay in the processor's cache
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->moved, NULL);
    a->spare = spare;
    if (!spare && t->events > FEW_EVENTS && ct_workers_count() > 1)
        start_thread(a);
    return a;
}

// A processor that was used by others may be free by now. To be called at rest: what is held back
// would keep its place in a smaller ring.
static void start_if_spare(struct ct_readahead *a) {
    int left = atomic_load_explicit(a->spare, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak(a->spare, &left, left - 1))
        ;
    if (left <= 0)
        return;
    if (!start_thread(a))
        a->spare = NULL; // it stays unused
}

const struct ct_readahead_batch *ct_readahead_next(struct ct_readahead *a) {
    if (a->spare && !a->has_thread && a->filled == a->taken)
        start_if_spare(a);
    if (!a->has_thread) {
        for (; !count_ready(a); a->filled++)
            a->ended = !fill_batch(a, a->filled);
        return &a->batch[a->taken++ % a->ring];
    }
    pthread_mutex_lock(&a->lock);
    if (!count_ready(a))
        while (count_ready(a) < RESUME_AT && !a->ended)
            pthread_cond_wait(&a->moved, &a->lock);
    const struct ct_readahead_batch *b = &a->batch[a->taken++ % a->ring];
    if (count_ready(a) == RESUME_AT)
        pthread_cond_signal(&a->moved);
    pthread_mutex_unlock(&a->lock);
    return b;
}

void ct_readahead_end(struct ct_readahead *a) {
    if (!a)
        return;
    if (a->has_thread) {
        pthread_mutex_lock(&a->lock);
        a->stop = 1;
        pthread_cond_signal(&a->moved);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
        if (a->spare)
            atomic_fetch_add(a->spare, 1);
    }
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->moved);
    free(a);
}

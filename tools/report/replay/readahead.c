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
    // Batches that are read after one with a reading before that one is handed on.
    HELD_BACK = CT_READAHEAD_EVENTS / CT_READAHEAD_BATCH,
    BATCHES = 3 * HELD_BACK,
    // When the ring is full, reading resumes when only so many batches are ready; when none is
    // ready, so many are waited for: to wake a thread costs as much as several batches.
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
    int has_thread, has_readings;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    // Under the lock: how many batches were read, may be taken (the others are held back) and were
    // taken. The last one taken is in use.
    uint64_t filled, ready, taken;
    int ended; // the last batch was read
    int stop;
    // Of the thread that reads: the latest readings, as a ring. Those from `open` on are held back.
    struct reading reading[READINGS];
    uint64_t readings, open;
};

// Adds an allocation to the readings that were taken during its call, as far as they are held back.
// That depends on the numbers of the events, never on the speed of the threads or on where a replay
// began. (Only the objects of a checkpoint, which are no events, may lie between.)
static void add_to_readings(struct ct_readahead *a, const struct ct_readahead_step *s) {
    const struct ct_event *e = &s->event;
    const uint64_t bytes = ct_event_allocated_bytes(e);
    const int device = ct_event_device_index(e);
    if (!bytes)
        return;
    for (uint64_t i = a->readings; i > a->open; i--) {
        const struct reading *r = &a->reading[(i - 1) % READINGS];
        if (s->number - r->step->number > CT_READAHEAD_EVENTS ||
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
    if (CT_HAS(e, duration_ns) && a->readings > a->open)
        add_to_readings(a, s);
    if (CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes)) {
        a->reading[a->readings++ % READINGS] = (struct reading){s, batch};
        if (a->readings - a->open > READINGS)
            a->open++;
    }
}

// After a batch was read: returns how many batches may be taken.
static uint64_t count_released(struct ct_readahead *a, uint64_t number) {
    while (a->open < a->readings && a->reading[a->open % READINGS].batch + HELD_BACK <= number)
        a->open++;
    return a->open < a->readings ? a->reading[a->open % READINGS].batch : number + 1;
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
    struct ct_readahead_batch *b = &a->batch[number % BATCHES];
    const unsigned owned = a->has_thread ? CT_READAHEAD_BATCH - OWN_AHEAD : 0;
    enum ct_step step = CT_STEP_EVENT;
    unsigned n = 0;
    for (; n < CT_READAHEAD_BATCH && step != CT_STEP_END; n++) {
        struct ct_readahead_step *s = &b->step[n];
        if (n < owned)
            own_soon(s + OWN_AHEAD);
        s->step = step = ct_trace_step(a->trace, &s->event, &s->number);
        note_step(a, s, number);
    }
    b->n = n;
    return step != CT_STEP_END;
}

static void *read_batches(void *ahead) {
    struct ct_readahead *a = ahead;
    pthread_mutex_lock(&a->lock);
    while (!a->ended) {
        if (a->filled - a->taken == BATCHES - 1) // the last batch is in use
            while (!a->stop && a->ready - a->taken > RESUME_AT)
                pthread_cond_wait(&a->moved, &a->lock);
        if (a->stop)
            break;
        CT_ASSERT(a->filled - a->taken < BATCHES - 1);
        const uint64_t number = a->filled;
        pthread_mutex_unlock(&a->lock);
        const int more = fill_batch(a, number);
        const uint64_t ready = more ? count_released(a, number) : number + 1;
        pthread_mutex_lock(&a->lock);
        const int was_low = a->ready - a->taken < RESUME_AT;
        a->filled++;
        a->ready = ready;
        a->ended = !more;
        if ((was_low && a->ready - a->taken >= RESUME_AT) || a->ended)
            pthread_cond_signal(&a->moved);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

struct ct_readahead *ct_readahead_begin(struct ct_trace *t, int has_readings) {
    struct ct_readahead *a = ct_heap_alloc_zeroed(1, sizeof *a);
    a->trace = t;
    a->has_readings = has_readings;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->moved, NULL);
    if (t->events > FEW_EVENTS && ct_workers_count() > 1) {
        a->has_thread = 1; // (the thread reads it, too)
        if (pthread_create(&a->thread, NULL, read_batches, a))
            a->has_thread = 0;
    }
    return a;
}

// Without a thread. Where nothing is held back, one batch is used again and again and stays in the
// processor's cache.
static void read_next(struct ct_readahead *a) {
    if (a->taken == a->filled)
        a->taken = a->ready = a->filled = a->readings = a->open = 0;
    for (; a->ready == a->taken; a->filled++) {
        a->ended = !fill_batch(a, a->filled);
        a->ready = a->ended ? a->filled + 1 : count_released(a, a->filled);
    }
}

const struct ct_readahead_batch *ct_readahead_next(struct ct_readahead *a) {
    if (!a->has_thread) {
        if (a->ready == a->taken)
            read_next(a);
        return &a->batch[a->taken++ % BATCHES];
    }
    pthread_mutex_lock(&a->lock);
    if (a->ready == a->taken)
        while (a->ready - a->taken < RESUME_AT && !a->ended)
            pthread_cond_wait(&a->moved, &a->lock);
    const struct ct_readahead_batch *b = &a->batch[a->taken++ % BATCHES];
    if (a->ready - a->taken == RESUME_AT)
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
    }
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->moved);
    free(a);
}

// SPDX-License-Identifier: Apache-2.0
// A ring of batches between the thread that reads and the thread that replays. Each batch belongs
// to one of them.
#include "replay/readahead.h"

#include <cutrace/format/assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"

enum {
    BATCHES = 16,
    // When the ring is full, reading resumes when only so many batches are left: to wake a thread
    // costs as much as a batch.
    RESUME_AT = BATCHES / 2,
    FEW_EVENTS = 4096, // so many are read before a thread would have started
};

struct ct_readahead {
    struct ct_trace *trace;
    struct ct_readahead_batch batch[BATCHES];
    int has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    // Under the lock: how many batches were read and taken. Those between are ready; the last one
    // taken is in use.
    uint64_t filled, taken;
    int stop;
};

// Reads a batch. 0: it has the end of the trace.
static int fill_batch(struct ct_trace *t, struct ct_readahead_batch *b) {
    for (b->n = 0; b->n < CT_READAHEAD_BATCH; b->n++) {
        struct ct_readahead_step *s = &b->step[b->n];
        s->step = ct_trace_step(t, &s->event, &s->number);
        if (s->step == CT_STEP_END) {
            b->n++;
            return 0;
        }
    }
    return 1;
}

static void *read_batches(void *ahead) {
    struct ct_readahead *a = ahead;
    int more = 1;
    pthread_mutex_lock(&a->lock);
    while (more) {
        if (a->filled - a->taken == BATCHES - 1) // the last batch is in use
            while (!a->stop && a->filled - a->taken > RESUME_AT)
                pthread_cond_wait(&a->moved, &a->lock);
        if (a->stop)
            break;
        CT_ASSERT(a->filled - a->taken < BATCHES - 1);
        struct ct_readahead_batch *b = &a->batch[a->filled % BATCHES];
        pthread_mutex_unlock(&a->lock);
        more = fill_batch(a->trace, b);
        pthread_mutex_lock(&a->lock);
        if (a->filled++ == a->taken)
            pthread_cond_signal(&a->moved);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

struct ct_readahead *ct_readahead_begin(struct ct_trace *t) {
    struct ct_readahead *a = ct_heap_alloc_zeroed(1, sizeof *a);
    a->trace = t;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->moved, NULL);
    if (t->events > FEW_EVENTS && sysconf(_SC_NPROCESSORS_ONLN) > 1)
        a->has_thread = !pthread_create(&a->thread, NULL, read_batches, a);
    return a;
}

const struct ct_readahead_batch *ct_readahead_next(struct ct_readahead *a) {
    if (!a->has_thread) {
        (void)fill_batch(a->trace, &a->batch[0]);
        return &a->batch[0];
    }
    pthread_mutex_lock(&a->lock);
    while (a->filled == a->taken)
        pthread_cond_wait(&a->moved, &a->lock);
    const struct ct_readahead_batch *b = &a->batch[a->taken++ % BATCHES];
    if (a->filled - a->taken <= RESUME_AT)
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

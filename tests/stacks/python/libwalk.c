// SPDX-License-Identifier: Apache-2.0
// A test library that walks the Python frames of its caller, as the recorder does in a hook,
// without a driver.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../preload/base/pages.h"
#include "record/tracing.h"
#include "stack/python_find.h"
#include "stack/python_walk.h"
#include "store/ring.h"
#include "store/stack_hash.h"
#include "store/stack_table.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST 4096

// A thread's, for ever.
static struct ct_python_frame *room(void) {
    static __thread struct ct_python_frame *frames __attribute__((tls_model("initial-exec")));
    if (!frames)
        frames = ct_pages_map(MOST * sizeof *frames);
    return frames;
}

// ---- hashes -------------------------------------------------------------------------------------
// All that were seen, and the words that stood behind them: one hash stands for one stack, also
// where code of one interpreter lies where another one's has been.

#define HASHES (1u << 20)
static struct hash { _Atomic uint64_t hash, words; } * hashes;

// Texts begin again in a child.
static void forget_hashes(void) {
    ct_pages_discard(hashes, HASHES * sizeof *hashes);
}

static int is_of_another(uint64_t hash, const uint64_t *words, size_t n) {
    const uint64_t want = n ? ct_stack_hash_words(words, n) : 1;
    for (size_t i = hash % HASHES, tries = 0; tries < 64; i = (i + 1) % HASHES, tries++) {
        uint64_t there = 0, known = 0;
        if (!atomic_compare_exchange_strong(&hashes[i].hash, &there, hash) && there != hash)
            continue;
        return !atomic_compare_exchange_strong(&hashes[i].words, &known, want) && known != want;
    }
    return 0; // the table is full there
}

// ---- walking ------------------------------------------------------------------------------------

// As the recorder's start does it. Returns whether there is an interpreter.
EXPORT int walk_begin(void);
EXPORT int walk_begin(void) {
    ct_tracing_open();
    // (The recorder's own thread may just be looking at the loaded objects.)
    for (int i = 0; i < 1000 && ct_python_find() <= 0; i++)
        usleep(1000);
    if (!hashes) {
        hashes = ct_pages_map(HASHES * sizeof *hashes);
        pthread_atfork(NULL, NULL, forget_hashes);
    }
    return ct_python_is_found();
}

// The caller's frames, at most `most`: a word each, and where its activation of the loop is.
// Returns their number; -1: there are more; -2: this hash was another stack's.
EXPORT long walk(uint64_t *words, uint64_t *anchors, uint64_t *hash, long most);
EXPORT long walk(uint64_t *words, uint64_t *anchors, uint64_t *hash, long most) {
    struct ct_python_frame *const frames = room();
    struct ct_ring *const ring = ct_ring_claim();
    int more;
    const size_t n = ct_python_walk(ring, frames, most < MOST ? (size_t)most : MOST, hash, &more);
    for (size_t i = 0; i < n; i++) {
        words[i] = ct_python_intern_frame(ring, &frames[i]);
        anchors[i] = frames[i].anchor;
    }
    if (is_of_another(*hash, words, n))
        return -2;
    return more ? -1 : (long)n;
}

// The text with this id: the bytes of its function and of its file in *function and *file, and
// where both lie.
EXPORT const char *walk_text(uint32_t id, uint32_t *function, uint32_t *file);
EXPORT const char *walk_text(uint32_t id, uint32_t *function, uint32_t *file) {
    const struct ct_stack_entry *const e = ct_stack_table_get(id);
    if (!e)
        return NULL;
    *function = (uint32_t)e->frame[0];
    *file = (uint32_t)(e->frame[0] >> 32);
    return e->frames == 1 + (*function + *file + 7u) / 8 ? (const char *)&e->frame[1] : NULL;
}

// Walks again and again for so many milliseconds, 0: for ever. Returns how often there were frames.
EXPORT long walk_on(long ms);
EXPORT long walk_on(long ms) {
    struct ct_ring *const ring = ct_ring_claim();
    const uint64_t end = ct_ring_now() + (uint64_t)ms * 1000000u;
    long times = 0;
    while (!ms || ct_ring_now() < end) {
        uint64_t hash;
        int more;
        times += ct_python_walk(ring, room(), MOST, &hash, &more) > 0;
    }
    return times;
}

// Bounds of the thread's own stack.
EXPORT void walk_stack(uint64_t *low, uint64_t *high);
EXPORT void walk_stack(uint64_t *low, uint64_t *high) {
    pthread_attr_t attributes;
    void *at = NULL;
    size_t bytes = 0;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &at, &bytes);
        pthread_attr_destroy(&attributes);
    }
    *low = (uintptr_t)at;
    *high = (uintptr_t)at + bytes;
}

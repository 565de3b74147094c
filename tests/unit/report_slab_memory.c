// SPDX-License-Identifier: Apache-2.0
// The memory of large states: pieces never overlap, keep what is written until they are freed, and
// are aligned; in any order, from several threads.
#include <stdlib.h>
#include <string.h>

#include <cutrace/model/live_memory.h>
#include <pthread.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "base/workers.h"
#include "replay/slab_memory.h"

enum { MOST = 300, SLAB = CT_SLAB_SLOTS * sizeof(union ct_slot) };

struct piece {
    uint64_t *at;
    size_t bytes;
    uint64_t mark;
};

// Marks its ends and every 512th word between.
static void fill(struct piece *p) {
    const size_t n = p->bytes / 8;
    for (size_t i = 0; i < n; i += 512)
        p->at[i] = p->mark + i;
    p->at[n - 1] = p->mark;
}

// Returns whether it has its marks.
static int is_whole(const struct piece *p) {
    const size_t n = p->bytes / 8;
    for (size_t i = 0; i < n - 1; i += 512)
        if (p->at[i] != p->mark + i)
            return 0;
    return p->at[n - 1] == p->mark;
}

// In the first half of the steps there are ever more pieces, then ever fewer.
static int exchange(uint64_t seed, int steps) {
    static const size_t sizes[] = {64, 4096, SLAB - 64, SLAB, SLAB, SLAB, SLAB + 64, 1 << 20};
    struct piece *pieces = ct_slab_memory_resize(NULL, NULL, 0, MOST * sizeof *pieces);
    uint64_t next = seed + test_seed();
    int fine = 1;
    memset(pieces, 0, MOST * sizeof *pieces);
    for (int i = 0; i < steps; i++) {
        next = next * UINT64_C(6364136223846793005) + 1442695040888963407;
        struct piece *p = &pieces[(next >> 33) % MOST];
        const int grows = (next >> 20 & 7) < (i < steps / 2 ? 6 : 2);
        const size_t bytes = grows ? sizes[next >> 45 & 7] : 0;
        fine &= !p->at || is_whole(p);
        p->at = ct_slab_memory_resize(NULL, p->at, p->bytes, bytes);
        p->bytes = bytes;
        p->mark = next;
        fine &= (uintptr_t)p->at % 64 == 0 && !p->at == !bytes;
        if (p->at)
            fill(p);
    }
    for (size_t i = 0; i < MOST; i++) {
        fine &= !pieces[i].at || is_whole(&pieces[i]);
        ct_slab_memory_resize(NULL, pieces[i].at, pieces[i].bytes, 0);
    }
    ct_slab_memory_resize(NULL, pieces, MOST * sizeof *pieces, 0);
    return fine;
}

TEST(pieces_are_whole) {
    for (uint64_t round = 0; round < 4; round++) // the memory begins anew each time
        assert_true(exchange(draw(UINT64_MAX), 4000));
}

static int results[8];

static void exchange_one(void *user, size_t i) {
    results[i] += exchange((uint64_t)(uintptr_t)user + i, 1500);
}

TEST(by_several_threads) {
    assert_int_equal(setenv("CUTRACE_REPORT_WORKERS", "4", 1), 0);
    ct_workers_run(8, exchange_one, (void *)1000);
    for (int i = 0; i < 8; i++)
        assert_int_equal(results[i], 1);
}

// ---- workers ------------------------------------------------------------------------------------

static struct {
    int called[1000];
    pthread_t by[1000];
} calls;

static void note_call(void *user, size_t i) {
    __atomic_fetch_add(&calls.called[i], 1, __ATOMIC_RELAXED);
    calls.by[i] = pthread_self();
    (void)user;
}

TEST(each_once) {
    static const char *const workers[] = {"0", "1", "2", "7", "16", "400", "-3", ""};
    for (size_t w = 0; w < sizeof workers / sizeof *workers; w++)
        for (size_t n = 0; n <= 1000; n = n * 9 + 1) {
            memset(&calls, 0, sizeof calls);
            assert_int_equal(setenv("CUTRACE_REPORT_WORKERS", workers[w], 1), 0);
            assert_true(ct_workers_count() <= 16);
            ct_workers_run(n, note_call, NULL);
            for (size_t i = 0; i < 1000; i++)
                assert_int_equal(calls.called[i], i < n);
            for (size_t i = 0; i < n && ct_workers_count() < 2; i++)
                assert_true(pthread_equal(calls.by[i], pthread_self()));
        }
}

// SPDX-License-Identifier: Apache-2.0
// The stack table: one id for each stack, whichever thread is first; a bounded size; and unwinding
// that survives odd frames.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "store/name_table.h"
#include "store/stack_hash.h"
#include "store/stack_table.h"
#include "store/trace_file.h"
#include "write/info_table.h"

#define THREADS 8
#define STACKS 5000

BEFORE_ALL {
    setenv("CUTRACE_STACK_MEMORY", "2M", 1);
    setenv("CUTRACE_STACK_DEPTH", "64", 1);
    return !ct_tracing_is_on();
}

AFTER_ALL {
    (void)!system("rm -rf /tmp/stacks.*/");
    (void)unlink(ct_trace_file_get_path());
    return 0;
}

static uint32_t seen[THREADS][STACKS];

static size_t make(uint64_t *frames, unsigned n) {
    const size_t depth = 1 + n % 40;
    for (size_t i = 0; i < depth; i++)
        frames[i] = 0x500000000000 + n * 4096 + i;
    return depth;
}

static void *intern_all(void *argument) {
    const unsigned me = (unsigned)(uintptr_t)argument;
    uint64_t frames[64];
    for (unsigned i = 0; i < STACKS; i++) {
        // Half of the threads the other way round: different ones are first.
        const unsigned n = me % 2 ? STACKS - 1 - i : i;
        seen[me][n] = ct_stack_table_intern(frames, make(frames, n));
    }
    return NULL;
}

TEST(one_id_for_a_stack) {
    pthread_t threads[THREADS];
    uint64_t frames[64];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, intern_all, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned n = 0; n < STACKS; n++) {
        const struct ct_stack_entry *e = ct_stack_table_get(seen[0][n]);
        assert_non_null(e);
        for (int t = 1; t < THREADS; t++)
            assert_int_equal(seen[t][n], seen[0][n]);
        assert_int_equal(e->frames, make(frames, n));
        assert_memory_equal(e->frame, frames, e->frames * sizeof *frames);
        if (n)
            assert_int_not_equal(seen[0][n], seen[0][n - 1]);
    }
    assert_int_equal(ct_stack_table_intern(frames, 0), 0);
    assert_null(ct_stack_table_get(0));
    assert_null(ct_stack_table_get(UINT32_MAX));
}

// Two threads use a table that does not exist yet. The second one comes up to some microseconds
// behind the first one.
#define ROUNDS 4000

static _Atomic unsigned come_here;
static uint32_t firsts[2][4];
static unsigned given_twice, not_given;

// Spins: who sleeps comes too late.
static void both(unsigned turn) {
    atomic_fetch_add(&come_here, 1);
    for (unsigned i = 1; atomic_load(&come_here) < 2 * turn; i++)
        if (i % 10000 == 0)
            sched_yield();
}

static void *come(void *argument) {
    const unsigned me = (unsigned)(uintptr_t)argument;
    uint64_t frames[64];
    for (unsigned round = 0; round < ROUNDS; round++) {
        both(2 * round + 1);
        for (volatile unsigned wait = me ? round % 500 : 250; wait; wait--)
            ;
        for (unsigned i = 0; i < 4; i++)
            firsts[me][i] = ct_stack_table_intern(frames, make(frames, 2 * i + me));
        both(2 * round + 2);
        for (unsigned i = 0; i < 8 && !me; i++) {
            const uint32_t id = firsts[i % 2][i / 2];
            const struct ct_stack_entry *e = ct_stack_table_get(id);
            not_given +=
                !id; // who made the table lost its core, and the other one does not wait for long
            given_twice += id && (!e || e->frames != make(frames, i) ||
                                  memcmp(e->frame, frames, e->frames * sizeof *frames));
        }
        if (!me)
            ct_stack_table_reinit_child(); // the table is gone
    }
    return NULL;
}

TEST(one_table_whoever_is_first) {
    pthread_t other;
    ct_stack_table_reinit_child();
    pthread_create(&other, NULL, come, (void *)1);
    (void)come(NULL);
    pthread_join(other, NULL);
    assert_int_equal(given_twice, 0);
    assert_in_range(not_given, 0, 8 * ROUNDS / 2); // (rare; all of them if there is never a table)
}

TEST(keeps_errno) {
    errno = 4321;
    assert_int_not_equal(ct_capture_stack(), 0);
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_NOTE);
    CT_SET(&e, text, ct_name_intern_format("%d", 1));
    ct_publish(&e); // the first one opens a file
    ct_publish(&e);
    ct_info_set("key", "%d", 1);
    const int flushed = ct_publish_flush();
    assert_true(flushed == 0 || flushed == -EBUSY); // (the writer thread may be at it)
    assert_int_equal(errno, 4321);
}

static __attribute__((noinline)) uint32_t deep(int n) {
    const uint32_t id = n ? deep(n - 1) : ct_capture_stack();
    __asm__ volatile("");
    return id;
}

TEST(depth_is_bounded) {
    const struct ct_stack_entry *e = ct_stack_table_get(deep(1000));
    assert_int_equal(e->frames, 64 + 1);
    assert_int_equal(e->frame[64], ct_frame_word_end(CT_STACK_DEEPER));
    e = ct_stack_table_get(deep(3));
    assert_true(e->frames > 4);
    assert_true(
        ct_frame_word_is_native(e->frame[e->frames - 1])); // the thread's first function is there
    uint32_t same[2];
    for (volatile int i = 0; i < 2; i++) // one call in the program, not two
        same[i] = deep(30);
    assert_int_equal(same[0], same[1]);
}

#ifdef __x86_64__
static uint32_t called_back;

// push %rbp; sub $32,%rsp; movabs $...,%rbp; movabs $...,%rax; call *%rax; add $32,%rsp; pop %rbp;
// ret
static const uint8_t code_template[] = {0x55, 0x48, 0x83, 0xec, 0x20, 0x48, 0xbd, 0,    0,
                                        0,    0,    0,    0,    0,    0,    0x48, 0xb8, 0,
                                        0,    0,    0,    0,    0,    0,    0,    0xff, 0xd0,
                                        0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};

static void callback(void) {
    called_back = ct_capture_stack();
}

// Code without unwind information, as a compiler at run time makes it, with a frame pointer that
// leads nowhere.
TEST(frames_without_information) {
    static const uint64_t bad[] = {
        0, 8, 0xdead, UINT64_C(0x7fffffffe000), UINT64_C(0xffffffffffffff00), 1};
    uint8_t *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        void (*const target)(void) = callback;
        uint8_t *at = code;
        memcpy(at, code_template, sizeof code_template);
        memcpy(at + 7, &bad[i], 8);
        memcpy(at + 17, &target, 8);
        void (*run)(void);
        memcpy(&run, &code, sizeof run);
        called_back = 0;
        run();
        // The callback's own caller is known to be this code, and nothing more.
        const struct ct_stack_entry *e = ct_stack_table_get(called_back);
        assert_non_null(e);
        assert_true(e->frames >= 2);
        assert_int_equal(e->frame[e->frames - 1], ct_frame_word_end(CT_STACK_LOST));
        assert_in_range(e->frame[e->frames - 2], (uintptr_t)code, (uintptr_t)code + 4096);
    }
    munmap(code, 4096);
}

// The unwinder tries addresses out: it must not own descriptors that the host may close and reuse.
TEST(no_descriptors) {
    const int fd = dup(0);
    if (fd < 0)
        skip();
    close(fd);
    frames_without_information(state);
    const int again = dup(0);
    assert_int_equal(again, fd);
    close(again);
}
#endif

// A key is found again, by any thread, and is no stack; an unknown one makes nothing.
TEST(aliases) {
    uint64_t frames[64];
    for (unsigned n = 0; n < 1000; n++) {
        const uint32_t id = ct_stack_table_intern(frames, make(frames, n));
        const uint64_t key = (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
        assert_int_equal(ct_stack_table_find_alias(key), 0);
        ct_stack_table_add_alias(key, id);
        ct_stack_table_add_alias(key, id);
        assert_int_equal(ct_stack_table_find_alias(key), id);
        // The same number as the hash of a stack means something else.
        const uint64_t hash = ct_stack_hash_words(frames, make(frames, n));
        assert_int_equal(ct_stack_table_find_alias(hash), 0);
        ct_stack_table_add_alias(hash, id + 1);
        assert_int_equal(ct_stack_table_find_alias(hash), id + 1);
        assert_int_equal(ct_stack_table_intern(frames, make(frames, n)), id);
    }
}

TEST(the_table_is_bounded) {
    uint64_t frames[64];
    unsigned full = 0;
    const uint64_t before = atomic_load(&ct_stack_table_dropped);
    for (unsigned i = 0; i < 20000; i++) { // 1 MiB is far less
        for (int k = 0; k < 60; k++)
            frames[k] = 0x600000000000 + i * 100 + (unsigned)k;
        full += ct_stack_table_intern(frames, 60) == 0;
    }
    assert_true(full > 10000);
    assert_int_equal(atomic_load(&ct_stack_table_dropped) - before, full);
    assert_int_not_equal(ct_stack_table_intern(frames, make(frames, 17)),
                         0); // what is there is found
}

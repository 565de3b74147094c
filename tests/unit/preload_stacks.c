// SPDX-License-Identifier: Apache-2.0
// Stacks: one id for one stack whoever is first, a bounded table, and unwinding that survives strange frames.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <output.h>
#include <recorder.h>
#include <stacks.h>

#define THREADS 8
#define STACKS 5000

static uint32_t seen[THREADS][STACKS];

static size_t make(uintptr_t *frames, unsigned n) {
    const size_t depth = 1 + n % 40;
    for (size_t i = 0; i < depth; i++)
        frames[i] = 0x500000000000 + n * 4096 + i;
    return depth;
}

static void *intern_all(void *argument) {
    const unsigned me = (unsigned)(uintptr_t)argument;
    uintptr_t frames[64];
    for (unsigned i = 0; i < STACKS; i++) {
        // Half of the threads the other way round: different ones are first.
        const unsigned n = me % 2 ? STACKS - 1 - i : i;
        seen[me][n] = ct_stack_intern(frames, make(frames, n));
    }
    return NULL;
}

static void one_id_for_a_stack(void **state) {
    pthread_t threads[THREADS];
    uintptr_t frames[64];
    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, intern_all, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned n = 0; n < STACKS; n++) {
        const struct ct_stack_entry *e = ct_stack_entry(seen[0][n]);
        assert_non_null(e);
        for (int t = 1; t < THREADS; t++)
            assert_int_equal(seen[t][n], seen[0][n]);
        assert_int_equal(e->frames, make(frames, n));
        assert_memory_equal(e->frame, frames, e->frames * sizeof *frames);
        if (n)
            assert_int_not_equal(seen[0][n], seen[0][n - 1]);
    }
    assert_int_equal(ct_stack_intern(frames, 0), 0);
    assert_null(ct_stack_entry(0));
    assert_null(ct_stack_entry(UINT32_MAX));
}

static void keeps_errno(void **state) {
    (void)state;
    errno = 4321;
    assert_int_not_equal(ct_stack(), 0);
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_NOTE);
    CT_SET(&e, text, ct_text("%d", 1));
    ct_record(&e); // the first one opens a file
    ct_record(&e);
    ct_info("key", "%d", 1);
    assert_int_equal(ct_flush(), 0);
    assert_int_equal(errno, 4321);
}

static __attribute__((noinline)) uint32_t deep(int n) {
    const uint32_t id = n ? deep(n - 1) : ct_stack();
    __asm__ volatile("");
    return id;
}

static void depth_is_bounded(void **state) {
    (void)state;
    assert_int_equal(ct_stack_entry(deep(1000))->frames, 64);
    assert_true(ct_stack_entry(deep(3))->frames > 4);
    uint32_t same[2];
    for (volatile int i = 0; i < 2; i++) // one call in the program, not two
        same[i] = deep(30);
    assert_int_equal(same[0], same[1]);
}

#ifdef __x86_64__
static uint32_t called_back;

// push %rbp; sub $32,%rsp; movabs $...,%rbp; movabs $...,%rax; call *%rax; add $32,%rsp; pop %rbp; ret
static const uint8_t code_template[] = {0x55, 0x48, 0x83, 0xec, 0x20, 0x48, 0xbd, 0,    0,
                                        0,    0,    0,    0,    0,    0,    0x48, 0xb8, 0,
                                        0,    0,    0,    0,    0,    0,    0,    0xff, 0xd0,
                                        0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};

static void callback(void) {
    called_back = ct_stack();
}

// Code without unwind information, as a compiler at run time makes it, with a frame pointer that leads nowhere.
static void frames_without_information(void **state) {
    static const uint64_t bad[] = {
        0, 8, 0xdead, UINT64_C(0x7fffffffe000), UINT64_C(0xffffffffffffff00), 1};
    (void)state;
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
        assert_int_not_equal(called_back, 0);
        assert_true(ct_stack_entry(called_back)->frames >= 1);
    }
    munmap(code, 4096);
}

// The unwinder tries addresses out: it must not own descriptors that the host may close and reuse.
static void no_descriptors(void **state) {
    (void)state;
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

static void the_table_is_bounded(void **state) {
    uintptr_t frames[64];
    unsigned full = 0;
    (void)state;
    const uint64_t before = atomic_load(&ct_stacks_full);
    for (unsigned i = 0; i < 20000; i++) { // 1 MiB is far less
        for (int k = 0; k < 60; k++)
            frames[k] = 0x600000000000 + i * 100 + (unsigned)k;
        full += ct_stack_intern(frames, 60) == 0;
    }
    assert_true(full > 10000);
    assert_int_equal(atomic_load(&ct_stacks_full) - before, full);
    assert_int_not_equal(ct_stack_intern(frames, make(frames, 17)), 0); // what is there is found
}

int main(void) {
    setenv("CUTRACE_STACK_MEMORY", "2M", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_errno),
        cmocka_unit_test(one_id_for_a_stack),
        cmocka_unit_test(depth_is_bounded),
#ifdef __x86_64__
        cmocka_unit_test(frames_without_information),
        cmocka_unit_test(no_descriptors),
#endif
        cmocka_unit_test(the_table_is_bounded),
    };
    const int rc = cmocka_run_group_tests_name("stacks", tests, NULL, NULL);
    (void)!system("rm -rf /tmp/stacks.*/");
    unlink(ct_output_path());
    return rc;
}

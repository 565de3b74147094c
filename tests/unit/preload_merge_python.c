// SPDX-License-Identifier: Apache-2.0
// Merging of native and Python frames: each input is derived from a made-up merged stack, which is
// also the expected result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stack/merge_python.h"
#include "stack/python_walk.h"
#include <cutrace/format/journal.h>

#define MOST 400
#define LOOP UINT64_C(0x400000) // return addresses in the loop have this bit, others do not

static uint64_t pc[MOST], python_word[MOST], expected[MOST], merged[MOST + 1];
static uintptr_t sp[MOST], anchor[MOST];
static size_t natives, pythons, wanted;
static uint64_t state;

static unsigned dice(unsigned n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static int is_loop(uintptr_t address) {
    return (address & LOOP) != 0;
}

static void begin(uint64_t seed) {
    state = seed;
    natives = pythons = wanted = 0;
    sp[0] = 0x7ffe00001000;
}

static void native(unsigned bytes) {
    pc[natives] = 0x10000 + dice(1000);
    expected[wanted++] = pc[natives];
    sp[natives + 1] = sp[natives] + bytes;
    natives++;
}

static uint64_t add_python(uintptr_t at) {
    anchor[pythons] = at;
    python_word[pythons] = ct_frame_word_python(1 + dice(100), 1 + dice(500));
    expected[wanted++] = python_word[pythons];
    return python_word[pythons++];
}

// A loop that runs n Python frames; its anchor lies anywhere in its frame.
static void loop(unsigned bytes, unsigned n, int has_anchor) {
    while (--n)
        add_python(0);
    add_python(has_anchor ? sp[natives] + dice(bytes) : CT_PYTHON_ANYWHERE);
    pc[natives] = LOOP | dice(1000);
    sp[natives + 1] = sp[natives] + bytes;
    natives++;
}

static size_t merge(size_t most, uint64_t end, int more) {
    const struct ct_native_frames n = {pc, sp, natives, end};
    const struct ct_python_frames p = {python_word, anchor, pythons, more};
    return ct_merge_python(merged, most, &n, &p, is_loop);
}

static void check_whole(void) {
    assert_int_equal(merge(MOST, 0, 0), wanted);
    assert_memory_equal(merged, expected, wanted * sizeof *merged);
}

static void loops_give_way(void **unused) {
    (void)unused;
    for (unsigned round = 0; round < 20000; round++) {
        const int has_anchors = (int)(round % 2);
        begin(round);
        for (unsigned i = dice(30); i; i--) {
            if (dice(3))
                native(8 + dice(5) * 8);
            else
                loop(8 + dice(20) * 8, 1 + dice(5), has_anchors);
        }
        check_whole();
    }
}

// Unwinding stopped before the outer loops: the mark stands where it stopped, the Python frames
// behind it.
static void python_goes_on_behind_a_lost_caller(void **unused) {
    const uint64_t lost = ct_frame_word_end(CT_STACK_LOST);
    (void)unused;
    begin(7);
    native(32);
    loop(64, 2, 1);
    native(16);
    expected[wanted++] = lost;
    const uint64_t first = add_python(0);
    add_python(sp[natives] + 4096);
    assert_int_equal(merge(MOST, lost, 0), wanted);
    assert_memory_equal(merged, expected, wanted * sizeof *merged);
    assert_int_equal(merged[wanted - 2], first);
}

// A loop whose native frame is not there (one of ours stood in its place) loses no Python frame,
// nor their order.
static void no_python_frame_is_left_out(void **unused) {
    (void)unused;
    begin(9);
    add_python(sp[0] - 64);
    native(32);
    native(32);
    check_whole();
}

static void depth_keeps_the_innermost(void **unused) {
    const uint64_t deeper = ct_frame_word_end(CT_STACK_DEEPER),
                   lost = ct_frame_word_end(CT_STACK_LOST);
    (void)unused;
    begin(11);
    for (int i = 0; i < 20; i++) {
        native(16);
        loop(64, 3, 1);
    }
    for (size_t most = 1; most < wanted; most++) {
        assert_int_equal(merge(most, 0, 0), most + 1);
        assert_memory_equal(merged, expected, most * sizeof *merged);
        assert_int_equal(merged[most], deeper);
    }
    assert_int_equal(merge(wanted, 0, 0), wanted);
    // A mark is not counted as a frame, and nothing but a mark stands where the frames end.
    assert_int_equal(merge(wanted, lost, 0), wanted + 1);
    assert_int_equal(merged[wanted], lost);
    assert_int_equal(merge(wanted - 1, lost, 0), wanted);
    assert_int_equal(merged[wanted - 1], deeper);
    assert_int_equal(merge(wanted, 0, 1), wanted + 1);
    assert_int_equal(merged[wanted], deeper);
}

static void one_of_them_alone(void **unused) {
    (void)unused;
    begin(13);
    for (int i = 0; i < 5; i++)
        native(16);
    check_whole();
    begin(14);
    for (int i = 0; i < 5; i++)
        add_python(i % 2 ? 0 : 4096);
    check_whole();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_give_way),
        cmocka_unit_test(python_goes_on_behind_a_lost_caller),
        cmocka_unit_test(no_python_frame_is_left_out),
        cmocka_unit_test(depth_keeps_the_innermost),
        cmocka_unit_test(one_of_them_alone),
    };
    return cmocka_run_group_tests_name("interleave", tests, NULL, NULL);
}

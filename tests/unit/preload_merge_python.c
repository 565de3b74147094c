// SPDX-License-Identifier: Apache-2.0
// Merging of native and Python frames: each input is derived from a made-up merged stack, which is
// also the expected result.
#include <stdlib.h>

#include "../lib/draw.h"
#include "../lib/unit.h"
#include "stack/merge_python.h"
#include "stack/python_walk.h"
#include <cutrace/format/journal.h>

#define MOST 400
#define LOOP UINT64_C(0x400000) // return addresses in the loop have this bit, others do not

static uint64_t pc[MOST], python_word[MOST], expected[MOST], merged[MOST + 1];
static uintptr_t sp[MOST], anchor[MOST];
static size_t natives, pythons, wanted;
static int is_loop(uintptr_t address) {
    return (address & LOOP) != 0;
}

static void begin(uint64_t seed) {
    chance = seed;
    natives = pythons = wanted = 0;
    sp[0] = 0x7ffe00001000;
}

static void native(uint64_t bytes) {
    pc[natives] = 0x10000 + draw(1000);
    expected[wanted++] = pc[natives];
    sp[natives + 1] = sp[natives] + bytes;
    natives++;
}

static uint64_t add_python(uintptr_t at) {
    anchor[pythons] = at;
    python_word[pythons] = ct_frame_word_python(1 + (uint32_t)draw(100), 1 + (uint32_t)draw(500));
    expected[wanted++] = python_word[pythons];
    return python_word[pythons++];
}

// A loop that runs n Python frames; its anchor lies anywhere in its frame.
static void loop(uint64_t bytes, uint64_t n, int has_anchor) {
    while (--n)
        add_python(0);
    add_python(has_anchor ? sp[natives] + draw(bytes) : CT_PYTHON_ANYWHERE);
    pc[natives] = LOOP | draw(1000);
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

TEST(loops_give_way) {
    for (unsigned round = 0; round < 20000; round++) {
        const int has_anchors = (int)(round % 2);
        begin(round);
        for (uint64_t i = draw(30); i; i--) {
            if (draw(3))
                native(8 + draw(5) * 8);
            else
                loop(8 + draw(20) * 8, 1 + draw(5), has_anchors);
        }
        check_whole();
    }
}

// Unwinding stopped before the outer loops: the mark stands where it stopped, the Python frames
// behind it.
TEST(python_goes_on_behind_a_lost_caller) {
    const uint64_t lost = ct_frame_word_end(CT_STACK_LOST);
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
TEST(no_python_frame_is_left_out) {
    begin(9);
    add_python(sp[0] - 64);
    native(32);
    native(32);
    check_whole();
}

TEST(depth_keeps_the_innermost) {
    const uint64_t deeper = ct_frame_word_end(CT_STACK_DEEPER),
                   lost = ct_frame_word_end(CT_STACK_LOST);
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

TEST(one_of_them_alone) {
    begin(13);
    for (int i = 0; i < 5; i++)
        native(16);
    check_whole();
    begin(14);
    for (int i = 0; i < 5; i++)
        add_python(i % 2 ? 0 : 4096);
    check_whole();
}

// SPDX-License-Identifier: Apache-2.0
// The model of PyTorch's allocator: settings as PyTorch reads them, sizes, and steps of it that
// were worked out by hand from c10/cuda/CUDACachingAllocator.cpp. test_model.py compares whole runs
// with the real one.
#include <stdlib.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "allocator/model.h"
#include "allocator/recorded.h"
#include "allocator/stream_groups.h"

#define MIB (UINT64_C(1) << 20)

static struct ct_allocator_settings settings_of(const char *text) {
    char error[CT_ALLOCATOR_SETTINGS_ERROR] = "";
    struct ct_allocator_settings s;
    if (ct_allocator_settings_parse(&s, text, strlen(text), error))
        fail_msg("%s: %s", text, error);
    return s;
}

TEST(read_settings) {
    struct ct_allocator_settings s = settings_of("");
    assert_false(s.expandable);
    assert_true(s.max_split == UINT64_MAX);
    s = settings_of(" expandable_segments : True, max_split_size_mb:128,\tbackend:native ,"
                    "garbage_collection_threshold:0.6,pinned_num_register_threads:8,");
    assert_true(s.expandable);
    assert_int_equal(s.max_split, 128 * MIB);
    assert_int_equal(s.collect_ppm, 600000);
    s = settings_of("per_process_memory_fraction:0.7654321");
    assert_int_equal(s.fraction_ppm, 765432);
    s = settings_of(
        "roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]"); // PyTorch's test
    const unsigned divisions[] = {8, 8, 2, 4, 2, 4, 1, 1};               // of 32 MiB to 4 GiB
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(s.divisions[5 + i], divisions[i]);
    ct_allocator_settings_fit_version(&s, 4);
    assert_int_equal(s.divisions[10], 1);
}

TEST(refuse_settings) {
    static const char *const wrong[] = {"backend:cudaMallocAsync",
                                        "expandable_segments",
                                        "expandable_segments:true",
                                        "max_split_size_mb:20",
                                        "max_split_size_mb:-1",
                                        "max_split_size_mb:99999999999999999999",
                                        "garbage_collection_threshold:1.5",
                                        "garbage_collection_threshold:",
                                        "roundup_power2_divisions:3",
                                        "roundup_power2_divisions:[256:1",
                                        "roundup_power2_divisions:[300:1]",
                                        "expandable_segments:True max_split_size_mb:64",
                                        "expandable_segments:True]",
                                        "no_such_setting:1",
                                        "\x1b[31m:1",
                                        ":",
                                        ","};
    char error[CT_ALLOCATOR_SETTINGS_ERROR];
    struct ct_allocator_settings s;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (!ct_allocator_settings_parse(&s, wrong[i], strlen(wrong[i]), error))
            fail_msg("accepted: %s", wrong[i]);
        for (const char *c = error; *c; c++)
            assert_in_range(*c, ' ', '~');
    }
}

TEST(round_sizes) {
    struct ct_allocator_settings s = settings_of("");
    assert_int_equal(ct_allocator_round(&s, 1), 512);
    assert_int_equal(ct_allocator_round(&s, 1200), 1536);
    assert_int_equal(ct_allocator_segment_size(&s, MIB), 2 * MIB);
    assert_int_equal(ct_allocator_segment_size(&s, MIB + 512), 20 * MIB);
    assert_int_equal(ct_allocator_segment_size(&s, 10 * MIB - 512), 20 * MIB);
    assert_int_equal(ct_allocator_segment_size(&s, 10 * MIB), 10 * MIB);
    assert_int_equal(ct_allocator_segment_size(&s, 11 * MIB), 12 * MIB);
    s = settings_of("roundup_power2_divisions:4");
    assert_int_equal(ct_allocator_round(&s, 1200), 1536);               // below 512 * 4: as without
    assert_int_equal(ct_allocator_round(&s, 1200 * 1024), 1280 * 1024); // 1024, 1280, 1536, 1792
    assert_int_equal(ct_allocator_round(&s, 1024 * 1024), 1024 * 1024);
}

static struct ct_allocator_model model_of(const char *text, uint64_t total) {
    const struct ct_allocator_settings s = settings_of(text);
    struct ct_allocator_model m;
    ct_allocator_model_init(&m, &s, total);
    return m;
}

static uint64_t size_of(const struct ct_allocator_model *m, uint32_t block) {
    assert_int_not_equal(block, CT_NO_BLOCK);
    return m->blocks[block].tree.size;
}

TEST(split_and_join) {
    struct ct_allocator_model m = model_of("", 100 * MIB);
    const uint32_t a = ct_allocator_model_alloc(&m, 0, 4 * MIB);
    const uint32_t b = ct_allocator_model_alloc(&m, 0, 8 * MIB);
    assert_int_equal(m.reserved, 20 * MIB); // one segment for both
    assert_int_equal(ct_allocator_model_largest_free(&m), 8 * MIB);
    const uint32_t c = ct_allocator_model_alloc(&m, 0, 7 * MIB + 512 * 1024);
    assert_int_equal(size_of(&m, c), 8 * MIB); // the rest is not more than 1 MiB
    assert_int_equal(m.allocated, 20 * MIB);
    ct_allocator_model_free_block(&m, a);
    ct_allocator_model_free_block(&m, b);
    assert_int_equal(ct_allocator_model_largest_free(&m), 12 * MIB);
    assert_int_equal(size_of(&m, ct_allocator_model_alloc(&m, 1, 5 * MIB)), 5 * MIB);
    assert_int_equal(m.reserved, 40 * MIB); // another stream's
    ct_allocator_model_free(&m);
}

TEST(free_and_repeat) {
    struct ct_allocator_model m = model_of("", 100 * MIB);
    const uint32_t a = ct_allocator_model_alloc(&m, 0, 60 * MIB);
    const uint32_t small = ct_allocator_model_alloc(&m, 0, 1000);
    ct_allocator_model_free_block(&m, a);
    assert_int_equal(m.retries, 0);
    assert_int_equal(size_of(&m, ct_allocator_model_alloc(&m, 1, 50 * MIB)), 50 * MIB);
    assert_int_equal(m.retries, 1); // the 60 MiB of the other stream were given back
    assert_int_equal(m.reserved, 52 * MIB);
    assert_int_equal(ct_allocator_model_alloc(&m, 1, 50 * MIB), CT_NO_BLOCK);
    assert_int_equal(m.reserved, 52 * MIB); // the small block keeps its segment
    ct_allocator_model_free_block(&m, small);
    ct_allocator_model_release_cached(&m);
    assert_int_equal(m.reserved, 50 * MIB);
    ct_allocator_model_free(&m);
}

TEST(keep_large_blocks_whole) {
    struct ct_allocator_model m = model_of("max_split_size_mb:32", 100 * MIB);
    const uint32_t a = ct_allocator_model_alloc(&m, 0, 60 * MIB);
    ct_allocator_model_free_block(&m, a);
    assert_int_equal(size_of(&m, ct_allocator_model_alloc(&m, 0, 12 * MIB)), 12 * MIB);
    assert_int_equal(m.reserved, 72 * MIB); // the 60 MiB are not split
    const uint32_t b = ct_allocator_model_alloc(&m, 0, 41 * MIB);
    assert_int_equal(size_of(&m, b), 60 * MIB); // but are given whole, if not 20 MiB too large
    ct_allocator_model_free_block(&m, b);
    assert_int_equal(size_of(&m, ct_allocator_model_alloc(&m, 0, 35 * MIB)), 36 * MIB);
    assert_int_equal(m.reserved, 48 * MIB); // the 60 MiB made room
    assert_int_equal(m.retries, 0);         // before all that was cached would have been freed
    ct_allocator_model_free(&m);
}

TEST(collect_garbage) {
    struct ct_allocator_model m = model_of("garbage_collection_threshold:0.5", 100 * MIB);
    m.allowed = 80 * MIB;
    ct_allocator_model_free_block(&m, ct_allocator_model_alloc(&m, 0, 30 * MIB));
    ct_allocator_model_free_block(&m, ct_allocator_model_alloc(&m, 1, 20 * MIB));
    assert_int_equal(m.reserved, 50 * MIB);
    (void)ct_allocator_model_alloc(&m, 2, 10 * MIB); // above 40 MiB: the older one is freed
    assert_int_equal(m.reserved, 30 * MIB);
    assert_int_equal(ct_allocator_model_alloc(&m, 2, 80 * MIB), CT_NO_BLOCK); // above the limit
    ct_allocator_model_free(&m);
}

TEST(expand_segments) {
    struct ct_allocator_model m = model_of("expandable_segments:True", 100 * MIB);
    const uint32_t a = ct_allocator_model_alloc(&m, 0, 30 * MIB);
    assert_int_equal(m.reserved, 40 * MIB); // pages of 20 MiB
    const uint32_t b = ct_allocator_model_alloc(&m, 0, 25 * MIB);
    assert_int_equal(m.reserved, 60 * MIB); // from the 10 MiB that were left
    ct_allocator_model_free_block(&m, a);
    ct_allocator_model_release_cached(&m);
    assert_int_equal(m.reserved, 40 * MIB); // one whole page of the free 30 MiB
    ct_allocator_model_free_block(&m, b);
    ct_allocator_model_release_cached(&m);
    assert_int_equal(m.reserved, 0);
    assert_int_equal(ct_allocator_model_alloc(&m, 0, 101 * MIB), CT_NO_BLOCK);
    ct_allocator_model_free(&m);
}

// What must hold whatever is asked for, in any order.
static void check_sums(const struct ct_allocator_model *m, uint64_t allocated) {
    assert_int_equal(m->allocated, allocated);
    assert_true(m->reserved >= m->allocated && m->reserved <= m->room);
}

TEST(random_requests) {
    static const char *const texts[] = {"", "expandable_segments:True", "max_split_size_mb:32",
                                        "roundup_power2_divisions:8",
                                        "expandable_segments:True,max_split_size_mb:32"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct ct_allocator_model m = model_of(texts[t], 500 * MIB);
        uint32_t held[256];
        uint64_t allocated = 0;
        unsigned count = 0;
        chance = t + 1 + test_seed();
        for (unsigned n = 0; n < 20000; n++) {
            if (count == 256 || (count && draw(5) < 2)) {
                const unsigned i = (unsigned)draw(count);
                allocated -= size_of(&m, held[i]);
                ct_allocator_model_free_block(&m, held[i]);
                held[i] = held[--count];
            } else {
                const uint64_t bytes = draw(4) ? draw(MIB) : draw(60 * MIB);
                const uint32_t block = ct_allocator_model_alloc(&m, (uint32_t)draw(3), bytes + 1);
                if (block != CT_NO_BLOCK) {
                    held[count++] = block;
                    allocated += size_of(&m, block);
                }
            }
            check_sums(&m, allocated);
        }
        while (count)
            ct_allocator_model_free_block(&m, held[--count]);
        ct_allocator_model_release_cached(&m);
        assert_int_equal(m.reserved, 0);
        ct_allocator_model_free(&m);
    }
}

TEST(remember_blocks) {
    struct ct_map places = {0};
    chance = 3 + test_seed();
    uint32_t truth[4096] = {0};
    for (unsigned n = 0; n < 100000; n++) {
        const uint64_t address = 1 + draw(4096);
        const uint64_t *place = ct_map_find(&places, address);
        assert_int_equal(place ? *place : 0, truth[address - 1]);
        if (place) {
            ct_map_remove(&places, address);
            truth[address - 1] = 0;
        } else {
            *ct_map_add(&places, address) = truth[address - 1] = n + 1;
        }
    }
    ct_map_free(&places);
}

// ---- which segments are of one stream -----------------------------------------------------------

enum { THREAD = 7 };

static struct ct_block_segment segment(uint64_t key, uint64_t mib) {
    return (struct ct_block_segment){key, key << 40, mib * MIB};
}

// A block fills a new segment; it is freed.
static void take(struct ct_stream_groups *g, uint64_t key, uint64_t mib) {
    const struct ct_block_segment s = segment(key, mib);
    ct_stream_groups_note_alloc(g, &s, THREAD, s.start, s.bytes);
}

static void give_back(struct ct_stream_groups *g, uint64_t key, uint64_t mib) {
    const struct ct_block_segment s = segment(key, mib);
    ct_stream_groups_note_free(g, &s, s.start, s.bytes);
}

static void release(struct ct_stream_groups *g, uint64_t key, uint64_t mib) {
    const struct ct_block_segment s = segment(key, mib);
    ct_stream_groups_note_freed(g, THREAD, s.key, s.bytes);
    ct_stream_groups_note_end(g, s.start, s.bytes);
}

// Segments of 200, 180 and 22 MiB, in the cache.
static void begin_groups(struct ct_stream_groups *g) {
    const struct ct_allocator_settings s = settings_of("max_split_size_mb:128");
    ct_stream_groups_init(g, &s);
    take(g, 1, 200);
    take(g, 2, 180);
    take(g, 3, 22);
    give_back(g, 1, 200);
    give_back(g, 2, 180);
    give_back(g, 3, 22);
}

static int is_same_stream(struct ct_stream_groups *g, uint64_t a, uint64_t b) {
    return ct_stream_groups_find(g, a)->group == ct_stream_groups_find(g, b)->group;
}

// release_available_cached_blocks() frees the smallest block of the stream that is large enough:
// that of 200 MiB, but not the smaller one of 180 MiB.
TEST(know_what_made_room) {
    struct ct_stream_groups g;
    begin_groups(&g);
    ct_stream_groups_note_refusal(&g, THREAD, 150 * MIB);
    release(&g, 1, 200);
    take(&g, 4, 150);
    assert_int_equal(ct_stream_groups_finish(&g), 0);
    assert_true(is_same_stream(&g, 4, 1));
    assert_false(is_same_stream(&g, 4, 2));
    ct_stream_groups_free(&g);
}

// release_cached_blocks() frees all, each stream's by size. Of one of 300 MiB, the stream's blocks
// of 128 MiB or more would have been freed first, from the largest one: that of 180 MiB may have
// been, that of 200 MiB, which follows, was not.
TEST(know_what_was_freed_with_all) {
    struct ct_stream_groups g;
    begin_groups(&g);
    ct_stream_groups_note_refusal(&g, THREAD, 300 * MIB);
    release(&g, 2, 180);
    release(&g, 1, 200);
    release(&g, 3, 22);
    take(&g, 4, 300);
    assert_int_equal(ct_stream_groups_finish(&g), 0);
    assert_false(is_same_stream(&g, 4, 1));
    ct_stream_groups_free(&g);
}

// A segment of 162 MiB is for a request of more than 160 MiB, which a free block of less than 20
// MiB more serves: that of 180 MiB was passed over.
TEST(know_how_large_a_request_is) {
    struct ct_stream_groups g;
    begin_groups(&g);
    take(&g, 4, 162);
    assert_int_equal(ct_stream_groups_finish(&g), 0);
    assert_false(is_same_stream(&g, 4, 2));
    assert_int_equal(g.passed_over, 1);
    ct_stream_groups_free(&g);
}

// The largest would have been freed first: 140 and then 200 MiB were freed with all, also where
// they are all.
TEST(know_the_order_of_releases) {
    const struct ct_allocator_settings s = settings_of("max_split_size_mb:128");
    struct ct_stream_groups g;
    ct_stream_groups_init(&g, &s);
    take(&g, 1, 200);
    take(&g, 2, 140);
    give_back(&g, 1, 200);
    give_back(&g, 2, 140);
    ct_stream_groups_note_refusal(&g, THREAD, 150 * MIB);
    release(&g, 2, 140);
    release(&g, 1, 200);
    take(&g, 4, 150);
    assert_int_equal(ct_stream_groups_finish(&g), 0);
    assert_false(is_same_stream(&g, 4, 1));
    ct_stream_groups_free(&g);
}

// A second refusal: the first release was for the request, the second one for all.
TEST(know_a_second_refusal) {
    struct ct_stream_groups g;
    begin_groups(&g);
    ct_stream_groups_note_refusal(&g, THREAD, 150 * MIB);
    release(&g, 2, 180);
    ct_stream_groups_note_refusal(&g, THREAD, 150 * MIB);
    release(&g, 3, 22);
    release(&g, 1, 200);
    take(&g, 4, 150);
    assert_int_equal(ct_stream_groups_finish(&g), 0);
    assert_true(is_same_stream(&g, 4, 2));
    ct_stream_groups_free(&g);
}

// Two free segments of 30 MiB, the older one with the higher address: how often one was passed over
// if a request of 30 MiB gets one of them.
static uint64_t count_passed_over(int order_is_known, int by_creation, uint64_t gets) {
    const struct ct_allocator_settings s = settings_of("");
    struct ct_stream_groups g;
    ct_stream_groups_init(&g, &s);
    g.order_is_known = order_is_known;
    g.by_creation = by_creation;
    take(&g, 2, 30);
    take(&g, 1, 30);
    give_back(&g, 2, 30);
    give_back(&g, 1, 30);
    take(&g, gets, 30);
    assert_int_equal(ct_stream_groups_finish(&g), 0);
    assert_int_equal(is_same_stream(&g, 1, 2), !g.passed_over);
    const uint64_t passed_over = g.passed_over;
    ct_stream_groups_free(&g);
    return passed_over;
}

// Of two free blocks of one size, the one that would have been taken is of another stream.
TEST(know_the_order_of_equal_blocks) {
    assert_int_equal(count_passed_over(1, 0, 1), 0);
    assert_int_equal(count_passed_over(1, 0, 2), 1);
    assert_int_equal(count_passed_over(1, 1, 1), 1);
    assert_int_equal(count_passed_over(1, 1, 2), 0);
    for (int by_creation = 0; by_creation < 2; by_creation++)
        for (uint64_t gets = 1; gets <= 2; gets++)
            assert_int_equal(count_passed_over(0, by_creation, gets), 0);
}

// Garbage is of any stream: 200 MiB of it tell nothing of the stream of a request of 150 MiB.
// Without garbage, the segment would be of its stream, and that of 180 MiB, which is left, would
// not.
TEST(learn_nothing_from_garbage) {
    for (int garbage = 0; garbage < 2; garbage++) {
        struct ct_stream_groups g;
        begin_groups(&g);
        ct_stream_groups_note_release(&g, THREAD, garbage);
        release(&g, 1, 200);
        take(&g, 4, 150);
        assert_int_equal(g.pair_count, garbage ? 0 : 2);
        assert_int_equal(g.passed_over, garbage ? 0 : 1);
        ct_stream_groups_free(&g);
    }
}

// Where all that was cached is freed before a request, empty_cache() may have freed it: blocks that
// were large enough were not passed over. The driver's refusal would show that they were.
TEST(learn_nothing_from_an_empty_cache) {
    for (int refused = 0; refused < 2; refused++) {
        struct ct_stream_groups g;
        begin_groups(&g);
        if (refused)
            ct_stream_groups_note_refusal(&g, THREAD, 150 * MIB);
        else
            ct_stream_groups_note_release(&g, THREAD, 0);
        release(&g, 1, 200);
        release(&g, 2, 180);
        release(&g, 3, 22);
        take(&g, 4, 150);
        assert_int_equal(g.passed_over, refused ? 2 : 0);
        ct_stream_groups_free(&g);
    }
}

// ---- the streams that blocks were recorded with -------------------------------------------------

static void note_block(struct ct_recorded_streams *r, uint64_t key, uint64_t stream) {
    struct ct_event e = {.stream = stream, .present = stream ? CT_BIT(stream) : 0};
    ct_recorded_streams_note(r, key, &e);
}

// Blocks that agree are certain; one that disagrees makes all of them less so; what is not known
// does not count.
TEST(recorded_streams) {
    struct ct_recorded_streams r = {.are_recorded = 1}, none = {0};
    for (int i = 0; i < 3; i++) {
        note_block(&r, 100, 0);
        note_block(&r, 200, 35);
        note_block(&r, 300, CT_STREAM_UNKNOWN);
        note_block(&none, 100, 35);
    }
    ct_recorded_streams_finish(&r, 1000);
    const uint32_t first = ct_recorded_streams_find(&r, 100);
    const uint32_t second = ct_recorded_streams_find(&r, 200);
    assert_true(first != second && first != CT_NO_RECORDED_STREAM);
    assert_int_equal(ct_recorded_streams_find(&r, 300), CT_NO_RECORDED_STREAM);
    assert_int_equal(ct_recorded_streams_find(&none, 100), CT_NO_RECORDED_STREAM);
    assert_true(ct_recorded_streams_against(&r, 100, first) == 0);
    assert_true(ct_recorded_streams_against(&r, 100, second) == 3000);
    assert_true(ct_recorded_streams_against(&r, 300, second) == 0);
    assert_true(ct_recorded_streams_against(&r, 100, CT_NO_RECORDED_STREAM) == 0);
    note_block(&r, 100, 35); // 1 of 7: by a factor of 6 each
    ct_recorded_streams_finish(&r, 1000);
    assert_int_equal(ct_recorded_streams_find(&r, 100), first);
    const double against = ct_recorded_streams_against(&r, 100, second);
    assert_true(against > 3.58 && against < 3.59); // 2 * ln 6
    for (uint64_t i = 0; i < 300; i++)             // more streams than can be told apart
        note_block(&r, 1000 + i, 1000 + i);
    assert_int_equal(ct_recorded_streams_find(&r, 1299), CT_NO_RECORDED_STREAM);
    ct_recorded_streams_free(&r);
    ct_recorded_streams_free(&none);
}

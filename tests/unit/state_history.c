// SPDX-License-Identifier: Apache-2.0
// The coarse history: against one made from all samples at once, encoded and decoded, and damaged
// on the way.
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "state_model.h"

#include <cutrace/model/history.h>
#include <cutrace/model/live.h>

enum { SAMPLES = 60000 };

struct sample {
    uint64_t t_ns, events, refused;
    int device, added;
    struct ct_quantities q;
};

static struct sample sample[SAMPLES];
static struct ct_history history, back;
static uint8_t bytes[CT_HISTORY_BYTES];

// ---- from all samples at once -------------------------------------------------------------------

static unsigned index_of(int device) {
    return device >= 0 && device < CT_MAX_DEVICES ? (unsigned)device : CT_MAX_DEVICES;
}

// How many cells there are with that width: samples of a device are in the order of time.
static size_t cells_with(size_t n, uint64_t start, uint64_t width) {
    uint64_t last[CT_DEVICES];
    size_t cells = 0;
    memset(last, 0xFF, sizeof last);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bucket = (sample[i].t_ns - start) / width;
        cells += last[index_of(sample[i].device)] != bucket;
        last[index_of(sample[i].device)] = bucket;
    }
    return cells;
}

static void same_cell(const struct ct_history_cell *c, size_t n, uint64_t start, uint64_t width) {
    uint64_t events = 0, refused = 0;
    for (unsigned q = 0; q < CT_QUANTITIES_END; q++) {
        uint64_t min = UINT64_MAX, max = 0, last = 0;
        int known = 0;
        for (size_t i = 0; i < n; i++) {
            const struct sample *s = &sample[i];
            if (index_of(s->device) != c->device || (s->t_ns - start) / width != c->bucket)
                continue;
            events += q == 0 ? s->events : 0;
            refused += q == 0 ? s->refused : 0;
            if (!s->added || !(s->q.known >> q & 1))
                continue;
            last = s->q.value[q];
            min = last < min ? last : min;
            max = last > max ? last : max;
            known = 1;
        }
        assert_int_equal(c->known >> q & 1, known);
        if (!known)
            continue;
        assert_int_equal(c->curve[q].min, min);
        assert_int_equal(c->curve[q].max, max);
        assert_int_equal(c->curve[q].last, last);
    }
    assert_int_equal(c->events, events);
    assert_int_equal(c->ooms, refused);
}

static void is_the_curve_of(const struct ct_history *h, size_t n, uint64_t start) {
    uint64_t width = CT_HISTORY_WIDTH_NS;
    while (cells_with(n, start, width) > CT_HISTORY_CELLS)
        width *= 2;
    assert_int_equal(h->width_ns, width);
    assert_int_equal(h->start_ns, start);
    assert_int_equal(h->cells, cells_with(n, start, width));
    for (uint32_t i = 0; i < h->cells; i += 1 + h->cells / 40)
        same_cell(&h->cell[i], n, start, width);
}

// ---- samples ------------------------------------------------------------------------------------

static struct sample random_sample(uint64_t *seed, uint64_t t_ns, unsigned devices) {
    struct sample s = {.t_ns = t_ns, .device = (int)random_below(seed, devices) - 1};
    s.device = s.device && random_below(seed, 3) ? 0 : s.device;
    s.events = random_below(seed, 3);
    s.refused = random_below(seed, 50) == 0;
    s.added = random_below(seed, 8) != 0;
    for (unsigned q = 0; q < CT_QUANTITIES_END; q++) {
        if (random_below(seed, 3))
            s.q.known |= 1u << q;
        s.q.value[q] = random_below(seed, 100) ? random_below(seed, UINT64_C(1) << 40)
                                               : (random_below(seed, 2) ? UINT64_MAX : 0);
    }
    return s;
}

static void put(struct ct_history *h, const struct sample *s) {
    if (s->added)
        ct_history_add(h, s->t_ns, s->device, &s->q);
    ct_history_count(h, s->t_ns, s->device, s->events, s->refused);
}

static size_t encode(const struct ct_history *h) {
    struct ct_out out = {bytes, bytes + sizeof bytes, 0};
    ct_history_encode(h, &out);
    assert_false(out.bad);
    return (size_t)(out.at - bytes);
}

static const struct ct_history_cell *cell_like(const struct ct_history *h,
                                               const struct ct_history_cell *like) {
    for (uint32_t i = 0; i < h->cells; i++)
        if (h->cell[i].device == like->device && h->cell[i].bucket == like->bucket)
            return &h->cell[i];
    return NULL;
}

static void same_history(const struct ct_history *a, const struct ct_history *b) {
    assert_int_equal(a->start_ns, b->start_ns);
    assert_int_equal(a->width_ns, b->width_ns);
    assert_int_equal(a->cells, b->cells);
    for (uint32_t i = 0; i < a->cells; i++) {
        const struct ct_history_cell *c = &a->cell[i], *d = cell_like(b, c);
        assert_non_null(d);
        assert_int_equal(c->events, d->events);
        assert_int_equal(c->ooms, d->ooms);
        assert_int_equal(c->known, d->known);
        for (unsigned q = 0; q < CT_QUANTITIES_END; q++)
            if (c->known >> q & 1)
                assert_memory_equal(&c->curve[q], &d->curve[q], sizeof c->curve[q]);
    }
}

// Gaps between samples from nanoseconds to minutes; at any moment the curve is that of all samples
// so far, and so it is when it has been written and read, and when it goes on from there.
TEST(is_the_curve_of_all_samples) {
    uint64_t seed = 20 + test_seed();
    for (unsigned round = 0; round < 24; round++) {
        const uint64_t start = round % 2 ? 1000000007 : 0;
        const uint64_t longest = UINT64_C(1) << (10 + random_below(&seed, 26));
        const unsigned devices = round % 3 == 2 ? 70 : 1 + round % 3;
        const size_t most = round % 4 ? 3000 : SAMPLES;
        uint64_t t_ns = start;
        ct_history_begin(&history, start);
        for (size_t n = 0; n < most; n++) {
            t_ns += random_below(&seed, random_below(&seed, 4) ? longest : 100);
            sample[n] = random_sample(&seed, t_ns, devices);
            put(&history, &sample[n]);
            if (n + 1 != most && n % (most / 4) != most / 8)
                continue;
            is_the_curve_of(&history, n + 1, start);
            const size_t length = encode(&history);
            assert_int_equal(ct_history_decode(&back, (struct ct_in){bytes, bytes + length, 0}), 0);
            same_history(&history, &back);
            if (round % 2)
                history = back;
        }
    }
}

TEST(late_samples_count_in_the_latest_cell) {
    const struct ct_quantities five = {1, {5}}, seven = {1, {7}};
    ct_history_begin(&history, 1000);
    ct_history_add(&history, 1000 + 50000000, 0, &five);
    ct_history_add(&history, 1000, 0, &seven);
    ct_history_add(&history, 0, 0, &seven);
    assert_int_equal(history.cells, 1);
    assert_int_equal(history.cell[0].bucket, 5);
    assert_int_equal(history.cell[0].curve[0].min, 5);
    assert_int_equal(history.cell[0].curve[0].max, 7);
    ct_history_add(&history, 0, 1, &seven); // before the start: the first bucket
    assert_int_equal(history.cell[1].bucket, 0);
    ct_history_add(&history, UINT64_MAX, 0, &seven);
    ct_history_add(&history, UINT64_MAX, 0, &five);
    assert_int_equal(history.cells, 3);
    for (uint64_t i = 0; i < 5000; i++) // up to the end of time
        ct_history_count(&history, UINT64_MAX / 5000 * i, (int)(i % 66), 1, 0);
    assert_true(history.cells <= CT_HISTORY_CELLS);
    assert_int_equal(ct_history_decode(&back, (struct ct_in){bytes, bytes + encode(&history), 0}),
                     0);
    same_history(&history, &back);
}

TEST(quantities_say_what_is_known) {
    struct memory memory = {0};
    struct ct_live live;
    static struct ct_readings readings;
    struct ct_event e = {.present = 0};
    ct_live_init(&live, memory_resize, &memory);
    CT_SET(&e, op, CT_OP_ALLOC);
    CT_SET(&e, t_ns, 1);
    CT_SET(&e, ptr, 4096);
    CT_SET(&e, bytes, 1000);
    CT_SET(&e, device, 2);
    CT_SET(&e, space, CT_SPACE_DEVICE);
    ct_live_apply(&live, &e, 0);
    ct_readings_apply(&readings, &live, &e);
    struct ct_quantities q = ct_quantities_now(&live, &readings, 2, NULL);
    assert_int_equal(q.known, 1u << CT_QUANTITY_TRACKED | 1u << CT_QUANTITY_RESERVED |
                                  1u << CT_QUANTITY_ALLOCATED);
    assert_int_equal(q.value[CT_QUANTITY_TRACKED], 1000);
    e.present = 0;
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, t_ns, 2);
    CT_SET(&e, device, 2);
    CT_SET(&e, free_bytes, 6000);
    CT_SET(&e, total_bytes, 10000);
    CT_SET(&e, process_bytes, 1500);
    CT_SET(&e, flags, CT_FLAG_NVML);
    ct_live_apply(&live, &e, 1);
    ct_readings_apply(&readings, &live, &e);
    q = ct_quantities_now(&live, &readings, 2, &(struct ct_gaps){2, 4000, 3000, 1000});
    assert_int_equal(q.known, (1u << CT_QUANTITIES_END) - 1);
    assert_int_equal(q.value[CT_QUANTITY_USED], 4000);
    assert_int_equal(q.value[CT_QUANTITY_UNTRACKED], 500);
    assert_int_equal(q.value[CT_QUANTITY_LARGEST_GAP], 3000);
    assert_int_equal(q.value[CT_QUANTITY_FRAGMENTATION], 250);
    ct_live_release(&live);
}

// ---- damage -------------------------------------------------------------------------------------

// Whatever was read, it is a history that can be gone on with, and written and read again.
static void is_sound(struct ct_history *h) {
    const struct ct_quantities q = {127, {1, 2, 3, 4, 5, 6, 7}};
    assert_true(h->cells <= CT_HISTORY_CELLS);
    for (uint32_t i = 0; i < h->cells; i++) {
        const struct ct_history_cell *c = &h->cell[i];
        assert_true(c->device <= CT_MAX_DEVICES);
        assert_true(c->bucket <= (UINT64_MAX - h->start_ns) / h->width_ns);
        assert_true(!i || c[-1].device < c->device ||
                    (c[-1].device == c->device && c[-1].bucket < c->bucket));
        for (unsigned k = 0; k < CT_QUANTITIES_END; k++)
            assert_true(!(c->known >> k & 1) || (c->curve[k].min <= c->curve[k].last &&
                                                 c->curve[k].last <= c->curve[k].max));
    }
    for (unsigned i = 0; i < 100; i++)
        ct_history_add(h, h->start_ns + i * (UINT64_C(1) << 40), (int)i % 70, &q);
    struct ct_out out = {bytes, bytes + sizeof bytes, 0};
    ct_history_encode(h, &out);
    assert_false(out.bad);
    assert_int_equal(ct_history_decode(&back, (struct ct_in){bytes, out.at, 0}), 0);
}

TEST(damage_is_found_or_harmless) {
    static struct ct_history read;
    uint64_t seed = 77 + test_seed();
    uint64_t t_ns = 0;
    unsigned refused = 0, accepted = 0;
    ct_history_begin(&history, 0);
    for (unsigned i = 0; i < 300; i++) {
        t_ns += random_below(&seed, 20000000);
        const struct sample s = random_sample(&seed, t_ns, 4);
        put(&history, &s);
    }
    const size_t length = encode(&history);
    uint8_t *good = malloc(length);
    memcpy(good, bytes, length);
    for (unsigned i = 0; i < 6000; i++) {
        const size_t n = i % 3 ? length : random_below(&seed, length);
        uint8_t *bad = malloc(n); // of its exact size, for ASan
        memcpy(bad, good, n);
        for (unsigned k = 0; k < 1 + i % 5 && n; k++)
            bad[random_below(&seed, random_below(&seed, 2) && n > 40 ? 40 : n)] =
                (uint8_t)random_next(&seed);
        const int rc = ct_history_decode(&read, (struct ct_in){bad, bad + n, 0});
        refused += rc != 0;
        accepted += rc == 0;
        if (rc)
            assert_int_equal(read.cells, 0);
        is_sound(&read);
        free(bad);
    }
    free(good);
    assert_true(refused > 1000 && accepted > 100);
}

TEST(more_than_fits_is_refused) {
    struct ct_out out = {bytes, bytes + sizeof bytes, 0};
    ct_put_varint(&out, 0);
    ct_put_varint(&out, 10);
    ct_put_varint(&out, CT_HISTORY_CELLS + 1);
    assert_int_equal(ct_history_decode(&back, (struct ct_in){bytes, out.at, 0}), -1);
    out.at = bytes;
    ct_put_varint(&out, 0);
    ct_put_varint(&out, 0); // no width
    ct_put_varint(&out, 0);
    assert_int_equal(ct_history_decode(&back, (struct ct_in){bytes, out.at, 0}), -1);
    out.at = bytes;
    ct_put_varint(&out, 0);
    ct_put_varint(&out, 10);
    ct_put_varint(&out, 0);
    for (unsigned i = 0; i < 2; i++) { // columns of a later version are none of ours
        ct_put_varint(&out, 1000);
        ct_put_bytes(&out, "\2\0\0\0xy", 6);
    }
    assert_int_equal(ct_history_decode(&back, (struct ct_in){bytes, out.at, 0}), 0);
    assert_int_equal(back.cells, 0);
}

// Two cells of one device whose buckets are told as `first` and `difference`.
static int two_cells(uint64_t first, uint64_t difference) {
    struct ct_out out = {bytes, bytes + sizeof bytes, 0};
    ct_put_varint(&out, 1000); // start
    ct_put_varint(&out, 10);   // width
    ct_put_varint(&out, 2);
    for (unsigned column = 0; column < 3; column++) {
        ct_put_varint(&out, column);
        uint8_t *length_at = out.at;
        ct_put_bytes(&out, "\0\0\0\0", 4);
        ct_put_varint(&out, column == 1 ? first : 0);
        ct_put_varint(&out, column == 1 ? difference : 0);
        ct_section_end(&out, length_at);
    }
    return ct_history_decode(&back, (struct ct_in){bytes, out.at, 0});
}

TEST(buckets_ascend_and_end_in_time) {
    const uint64_t last = (UINT64_MAX - 1000) / 10;
    assert_int_equal(two_cells(3, 1), 0);
    assert_int_equal(back.cells, 2);
    assert_int_equal(back.cell[1].bucket, 4);
    assert_int_equal(two_cells(3, 0), -1);
    assert_int_equal(two_cells(last - 1, 1), 0);
    assert_int_equal(two_cells(last - 1, 2), -1);
    assert_int_equal(two_cells(last + 1, 1), -1);
    assert_int_equal(two_cells(last - 1, UINT64_MAX), -1);
}

// A section of a typical process, packed or not: its size is told, and bounded.
TEST(is_small) {
    uint64_t seed = 9 + test_seed(), used = 0;
    ct_history_begin(&history, 0);
    for (uint64_t t_ns = 0; t_ns < UINT64_C(3600000000000); t_ns += 50000000) {
        struct ct_quantities q = {(1u << CT_QUANTITIES_END) - 1, {0}};
        used = random_below(&seed, 3) ? used + random_below(&seed, 64) * 2097152 : used / 2;
        for (unsigned i = 0; i < 6; i++)
            q.value[i] = used + (uint64_t)i * 512000000;
        q.value[CT_QUANTITY_FRAGMENTATION] = random_below(&seed, 1000);
        ct_history_add(&history, t_ns, 0, &q);
        ct_history_count(&history, t_ns, 0, 100, 0);
    }
    const size_t length = encode(&history);
    print_message("# %zu bytes for %u cells of %.1f s\n", length, history.cells,
                  (double)history.width_ns / 1e9);
    assert_true(length < 100 * CT_HISTORY_CELLS);
}

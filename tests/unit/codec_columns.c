// SPDX-License-Identifier: Apache-2.0
// Packed columns: decoding returns what was encoded, rounded as FORMAT.md says, wherever a block is
// cut and whatever memory it gets.
#include <stdlib.h>
#include <string.h>

#include <cutrace/format/decode.h>
#include <cutrace/format/encode.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "body_cut.h"

enum { MAX_BYTES = 4 << 20, PIECE = 64 };

// Any number, small ones and those at the edges of types more often.
static uint64_t number(void) {
    static const uint64_t edges[] = {0,
                                     1,
                                     63,
                                     127,
                                     128,
                                     255,
                                     256,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     UINT64_MAX >> 1,
                                     UINT64_C(1) << 63,
                                     UINT64_MAX};
    const uint64_t kind = draw(4);
    return kind == 0   ? edges[draw(sizeof edges / sizeof *edges)]
           : kind == 1 ? draw(10)
           : kind == 2 ? draw(1 << 16)
                       : draw(UINT64_MAX) >> draw(64);
}

// ---- streams in small pieces --------------------------------------------------------------------

static struct {
    struct ct_encoder columns;
    uint8_t *bytes[CT_COLUMNS]; // what the pieces held that are full
    size_t length[CT_COLUMNS], capacity[CT_COLUMNS];
    uint8_t *
        piece[CT_COLUMNS]; // exactly as large as it says, so that a sanitizer sees what goes beyond
    uint64_t rooms, rooms_left;
} s;

static size_t length_of(unsigned column) {
    const struct ct_out *o = &s.columns.stream[column];
    return s.length[column] + (o->at ? (size_t)(o->at - s.piece[column]) : 0);
}

static void close_piece(unsigned column) {
    const size_t n = length_of(column) - s.length[column];
    if (s.length[column] + n > s.capacity[column])
        s.bytes[column] = realloc(s.bytes[column], s.capacity[column] = (s.length[column] + n) * 2);
    if (n)
        memcpy(s.bytes[column] + s.length[column], s.piece[column], n);
    s.length[column] += n;
}

static int room(void *user, unsigned column, struct ct_out *out) {
    assert_ptr_equal(user, &s);
    assert_true(column < CT_COLUMNS && out == &s.columns.stream[column]);
    s.rooms++;
    if (!s.rooms_left)
        return -1;
    s.rooms_left--;
    close_piece(column);
    free(s.piece[column]);
    const size_t n = CT_COLUMN_ROOM + draw(PIECE);
    s.piece[column] = malloc(n);
    *out = (struct ct_out){s.piece[column], s.piece[column] + n, 0};
    return 0;
}

static void begin(uint64_t tick_ns) {
    static void *memory;
    if (!memory)
        memory = malloc(ct_encoder_memory_bytes());
    for (unsigned c = 0; c < CT_COLUMNS; c++) {
        free(s.piece[c]);
        s.piece[c] = NULL;
        s.length[c] = 0;
    }
    s.rooms = 0;
    s.rooms_left = UINT64_MAX;
    s.columns.room = room;
    s.columns.user = &s;
    memset(memory, 0xA5, ct_encoder_memory_bytes());
    ct_encoder_begin(&s.columns, memory, tick_ns);
}

// An EVENTS section, of the first `records` and what the streams had then. The caller frees it.
static uint8_t *section_of(uint32_t records, const size_t *lengths, size_t *size) {
    uint8_t *section = malloc(MAX_BYTES);
    struct ct_out o = {section, section + MAX_BYTES, 0};
    ct_put_varint(&o, records);
    for (unsigned c = 0; c < CT_COLUMNS; c++) {
        if (!lengths[c])
            continue;
        const uint8_t *head = o.at;
        const size_t full = lengths[c] < s.length[c] ? lengths[c] : s.length[c];
        ct_encoder_put_column_head(&o, c, (uint32_t)lengths[c]);
        assert_true(o.at - head <= CT_COLUMN_HEAD_BYTES);
        ct_put_bytes(&o, s.bytes[c], full);
        ct_put_bytes(&o, s.piece[c], lengths[c] - full);
    }
    assert_false(o.bad);
    *size = (size_t)(o.at - section);
    return realloc(section, *size);
}

// ---- events -------------------------------------------------------------------------------------

static uint64_t now_ns;

static struct ct_event any_event(void) {
    struct ct_event e = {.present = 0};
    for (unsigned f = 1; f < CT_FIELDS_END; f++)
        if (draw(3) == 0)
            ct_event_set(&e, f, number());
    now_ns += draw(3) ? draw(300) : draw(20) ? draw(100000) : draw(1 << 30);
    if (CT_HAS(&e, t_ns))
        e.t_ns = draw(50) ? now_ns : number();
    return e;
}

// Blocks of three devices, one of them not known, with totals that mostly follow from them.
static struct ct_event block_event(void) {
    static const int32_t devices[] = {0, 63, 64, -1};
    static uint64_t allocated[4], reserved[4];
    struct ct_event e = {.present = 0};
    const uint64_t d = draw(4);
    now_ns += 1 + draw(2000);
    CT_SET(&e, t_ns, now_ns);
    CT_SET(&e, op, (uint32_t)(CT_OP_BLOCK_ALLOC + draw(3)));
    if (d < 3)
        CT_SET(&e, device, devices[d]);
    if (e.op != CT_OP_BLOCK_OOM)
        CT_SET(&e, ptr, 512 * draw(1000));
    if (draw(20))
        CT_SET(&e, bytes, 512 * draw(100));
    const uint64_t bytes = CT_HAS(&e, bytes) ? e.bytes : 0;
    allocated[d] += e.op == CT_OP_BLOCK_ALLOC ? bytes : e.op == CT_OP_BLOCK_FREE ? 0 - bytes : 0;
    if (!draw(50))
        allocated[d] = number();
    if (!draw(50))
        reserved[d] = number();
    if (draw(30))
        CT_SET(&e, allocated_bytes, allocated[d]);
    if (draw(30))
        CT_SET(&e, reserved_bytes, reserved[d]);
    return e;
}

// Allocations and frees of some sizes and stacks, at addresses that come back.
static struct ct_event likely_event(void) {
    static uint64_t at[64], bytes[64];
    struct ct_event e = {.present = 0};
    const uint64_t slot = draw(64);
    if (draw(3) == 0)
        return block_event();
    now_ns += 1 + (draw(4) ? draw(2000) : draw(20));
    CT_SET(&e, t_ns, now_ns);
    CT_SET(&e, thread, (uint32_t)(1 + draw(3)));
    CT_SET(&e, result, 0);
    if (at[slot]) {
        CT_SET(&e, op, CT_OP_FREE);
        CT_SET(&e, ptr, at[slot]);
        at[slot] = 0;
        return e;
    }
    bytes[slot] = (1 + draw(20)) * 512;
    const uint64_t other = draw(64);
    at[slot] = draw(3) ? UINT64_C(0x7f0000000000) + draw(1000) * 512 : at[other] + bytes[other];
    CT_SET(&e, op, CT_OP_ALLOC);
    CT_SET(&e, ptr, at[slot]);
    CT_SET(&e, bytes, bytes[slot]);
    CT_SET(&e, stack, (uint32_t)(1 + draw(30)));
    CT_SET(&e, duration_ns, draw(5000));
    CT_SET(&e, context, 0x55aa);
    return e;
}

static struct ct_event *some_events(size_t n, int likely) {
    struct ct_event *events = calloc(n, sizeof *events);
    now_ns = UINT64_C(1000000000) + draw(1000);
    for (size_t i = 0; i < n; i++)
        events[i] = likely ? likely_event() : any_event();
    return events;
}

// The time of the next record, if the encoder is told.
static uint64_t next_of(const struct ct_event *events, size_t n, size_t i) {
    return i + 1 < n && CT_HAS(&events[i + 1], t_ns) ? events[i + 1].t_ns : 0;
}

// What must come out, by the words of FORMAT.md: the last record that had a time before is at
// *before, or NULL.
static struct ct_event rounded(const struct ct_event *e, const struct ct_event *before,
                               uint64_t next_ns, uint64_t tick) {
    struct ct_event r = *e;
    const uint64_t mine = e->t_ns / tick;
    if (CT_HAS(e, t_ns) && before && before->t_ns / tick != mine && next_ns &&
        next_ns / tick != mine)
        r.t_ns = mine * tick;
    r.duration_ns = e->duration_ns / tick * tick;
    return r;
}

static void same(const struct ct_event *got, const struct ct_event *want) {
    assert_int_equal(got->present, want->present);
    for (unsigned f = 1; f < CT_FIELDS_END; f++)
        if (want->present >> f & 1 && ct_event_get(got, f) != ct_event_get(want, f))
            fail_msg("field %u: got %llx, want %llx", f, (unsigned long long)ct_event_get(got, f),
                     (unsigned long long)ct_event_get(want, f));
}

static struct ct_decoder *reader(const uint8_t *section, size_t size, int *rc) {
    static struct ct_decoder *r;
    if (!r) {
        r = calloc(1, sizeof *r);
        r->memory = malloc(ct_decoder_memory_bytes());
    }
    memset(r->memory, 0x5A, ct_decoder_memory_bytes());
    *rc = ct_decoder_open(r, (struct ct_in){section, section + size, 0});
    return r;
}

// The first `records` of a block decode to the first events.
static void decodes(const struct ct_event *events, size_t n, uint32_t records,
                    const size_t *lengths, uint64_t tick) {
    size_t size;
    int rc;
    uint8_t *section = section_of(records, lengths, &size);
    struct ct_decoder *r = reader(section, size, &rc);
    const struct ct_event *before = NULL;
    assert_int_equal(rc, 0);
    for (uint32_t i = 0; i < records; i++) {
        struct ct_event got = {.present = 0};
        const struct ct_event want = rounded(&events[i], before, next_of(events, n, i), tick);
        assert_int_equal(ct_decoder_next(r, &got), 1);
        same(&got, &want);
        if (CT_HAS(&want, t_ns)) {
            before = &events[i];
            if (want.t_ns != events[i].t_ns)
                assert_int_equal(r->exact, 0);
        }
    }
    struct ct_event none;
    assert_int_equal(ct_decoder_next(r, &none), 0);
    free(section);
}

static int put(const struct ct_event *events, size_t n, size_t i) {
    s.columns.next_ns = next_of(events, n, i);
    return ct_encoder_put(&s.columns, &events[i]);
}

static void lengths_now(size_t *lengths) {
    for (unsigned c = 0; c < CT_COLUMNS; c++)
        lengths[c] = length_of(c);
}

static void round_trip(const struct ct_event *events, size_t n, uint64_t tick) {
    size_t lengths[CT_COLUMNS];
    begin(tick);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(put(events, n, i), 0);
    assert_int_equal(s.columns.records, n);
    lengths_now(lengths);
    decodes(events, n, (uint32_t)n, lengths, tick);
}

// ---- tests --------------------------------------------------------------------------------------

TEST(random_events_round_trip) {
    static const uint64_t ticks[] = {1, 100, 7, 1000000, CT_MAX_TICK_NS};
    for (uint64_t seed = 1; seed <= test_rounds(20, 60); seed++) {
        chance = seed + test_seed();
        const size_t n = 1 + draw(1500);
        struct ct_event *events = some_events(n, seed % 2 != 0);
        round_trip(events, n, ticks[seed % (sizeof ticks / sizeof *ticks)]);
        free(events);
    }
}

// What PyTorch states of its pools follows from the blocks: a zero for each.
TEST(what_follows_from_blocks_is_zero) {
    enum { N = 2000 };
    uint64_t allocated[2] = {0, 0};
    size_t lengths[CT_COLUMNS];
    chance = 77 + test_seed();
    struct ct_event *events = calloc(N, sizeof *events);
    for (size_t i = 0; i < N; i++) {
        struct ct_event *e = &events[i];
        const uint64_t device = draw(2), bytes = 512 * (1 + draw(9));
        CT_SET(e, t_ns, 1000 * (i + 1));
        CT_SET(e, op, draw(2) ? CT_OP_BLOCK_ALLOC : CT_OP_BLOCK_FREE);
        CT_SET(e, device, (int32_t)device);
        CT_SET(e, ptr, 512 * (1 + draw(100)));
        CT_SET(e, bytes, bytes);
        allocated[device] += e->op == CT_OP_BLOCK_ALLOC ? bytes : 0 - bytes;
        CT_SET(e, allocated_bytes, allocated[device]);
        CT_SET(e, reserved_bytes, UINT64_C(20) << 20);
    }
    round_trip(events, N, 100);
    lengths_now(lengths);
    assert_int_equal(lengths[CT_FIELD_allocated_bytes], N);
    // (The first record of each device says what is reserved.)
    assert_true(lengths[CT_FIELD_reserved_bytes] <= N + 2 * 9);
    free(events);
}

TEST(any_cut_is_a_block) {
    enum { N = 300 };
    static size_t lengths[N + 1][CT_COLUMNS];
    for (uint64_t seed = 1; seed <= 4; seed++) {
        chance = seed + test_seed();
        struct ct_event *events = some_events(N, seed % 2 != 0);
        begin(100);
        memset(lengths[0], 0, sizeof lengths[0]);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(put(events, N, i), 0);
            lengths_now(lengths[i + 1]);
        }
        for (uint32_t cut = 0; cut <= N; cut++)
            decodes(events, N, cut, lengths[cut], 100);
        free(events);
    }
}

TEST(memory_may_end_anywhere) {
    enum { N = 200 };
    size_t lengths[CT_COLUMNS] = {0};
    for (uint64_t allowed = 0, all = 1; allowed < all; allowed++) {
        chance = 9 + test_seed();
        struct ct_event *events = some_events(N, 0);
        begin(100);
        s.rooms_left = allowed;
        uint32_t done = 0;
        memset(lengths, 0, sizeof lengths);
        while (done < N && put(events, N, done) == 0) {
            lengths_now(lengths);
            done++;
        }
        assert_int_equal(s.columns.records, done);
        all = done < N ? allowed + 2 : allowed; // until it is enough
        decodes(events, N, done, lengths, 100);
        free(events);
    }
}

// Ticks lose no order: times that differ still do, and a rounded one is alone in its tick.
TEST(order_survives_ticks) {
    enum { N = 3000 };
    size_t lengths[CT_COLUMNS], size, rounded_down = 0;
    chance = 3 + test_seed();
    struct ct_event *events = calloc(N, sizeof *events);
    for (size_t i = 0, t = 12345; i < N; i++, t += 1 + draw(draw(2) ? 30 : 1000)) {
        CT_SET(&events[i], t_ns, t);
        CT_SET(&events[i], op, CT_OP_NOTE);
    }
    begin(100);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(put(events, N, i), 0);
    lengths_now(lengths);
    int rc;
    uint8_t *section = section_of(N, lengths, &size);
    struct ct_decoder *r = reader(section, size, &rc);
    uint64_t last = 0, alone = UINT64_MAX;
    for (size_t i = 0; i < N; i++) {
        struct ct_event got;
        assert_int_equal(ct_decoder_next(r, &got), 1);
        assert_true(got.t_ns > last && got.t_ns <= events[i].t_ns &&
                    events[i].t_ns - got.t_ns < 100);
        assert_true(got.t_ns / 100 != alone);
        if (r->exact) {
            assert_int_equal(got.t_ns, events[i].t_ns);
        } else {
            assert_true(last / 100 != got.t_ns / 100);
            alone = got.t_ns / 100;
            rounded_down++;
        }
        last = got.t_ns;
    }
    assert_true(rounded_down > N / 4 && rounded_down < N);
    free(section);
    free(events);
}

// More shapes, templates, takes and gives than there are numbers.
TEST(tables_that_are_full) {
    enum { N = 150000, ROUNDS = 4 };
    chance = 5 + test_seed();
    struct ct_event *events = calloc(N, sizeof *events);
    for (size_t i = 0; i < N; i++) {
        struct ct_event *e = &events[i];
        CT_SET(e, t_ns, 1000 + i * 1000);
        CT_SET(e, op, draw(2) ? CT_OP_ALLOC : CT_OP_FREE);
        CT_SET(e, ptr, UINT64_C(0x7f0000000000) + draw(40000) * 4096);
        CT_SET(e, bytes, draw(30000) * 4096);
        CT_SET(e, stack, (uint32_t)draw(4));
        CT_SET(e, context, draw(CT_SHAPES + 100));
    }
    round_trip(events, N, 100);
    assert_int_equal(s.columns.shapes, CT_SHAPES);
    // (a set whose keys were not drawn often enough may lack one)
    assert_in_range(s.columns.templates, CT_TEMPLATE_SETS * CT_WAYS - 64,
                    CT_TEMPLATE_SETS * CT_WAYS);
    assert_true(s.columns.allocs > CT_ORDINALS && s.columns.frees > CT_ORDINALS);
    free(events);
}

// What repeats costs next to nothing, or else none of this is worth its while.
TEST(repetition_is_small) {
    enum { N = 20000 };
    size_t total = 0;
    struct ct_event *events = calloc(N, sizeof *events);
    for (size_t i = 0; i < N; i++) {
        struct ct_event *e = &events[i];
        CT_SET(e, t_ns, 1000 + i * 5000);
        CT_SET(e, op, i % 2 ? CT_OP_FREE : CT_OP_ALLOC);
        CT_SET(e, api, (uint32_t)(i % 2 + 1));
        CT_SET(e, ptr, UINT64_C(0x7f0000000000));
        if (i % 2 == 0) {
            CT_SET(e, bytes, 4096);
            CT_SET(e, stack, 77);
        }
    }
    round_trip(events, N, 100);
    for (unsigned c = 0; c < CT_COLUMNS; c++)
        total += length_of(c);
    assert_true(total < N * 4 + 100); // template, two bytes of time, address
    free(events);
}

static uint8_t *whole_section(const struct ct_event *events, size_t n, size_t *size) {
    size_t lengths[CT_COLUMNS];
    begin(100);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(put(events, n, i), 0);
    lengths_now(lengths);
    return section_of((uint32_t)n, lengths, size);
}

// A byte changed anywhere: the reader ends, and reads nothing beyond (a sanitizer sees that).
TEST(damage_is_noticed_or_harmless) {
    enum { N = 400 };
    size_t size;
    chance = 11 + test_seed();
    struct ct_event *events = some_events(N, 1);
    uint8_t *section = whole_section(events, N, &size);
    for (size_t i = 0; i < 4 * size; i++) {
        const size_t at = i / 4;
        const uint8_t was = section[at];
        const uint8_t to[4] = {0xff, 0, (uint8_t)(was ^ 1 << draw(8)), (uint8_t)draw(256)};
        struct ct_event e;
        int rc, more = 0;
        section[at] = to[i % 4];
        struct ct_decoder *r = reader(section, size, &rc);
        for (uint32_t k = 0; !rc && (more = ct_decoder_next(r, &e)) > 0; k++)
            assert_true(k < CT_MAX_EVENTS && !(e.present & ~CT_ALL_FIELDS));
        section[at] = was;
    }
    free(section);
    free(events);
}

TEST(plain_blocks_are_read) {
    enum { N = 500 };
    static uint8_t body[1 << 20];
    chance = 21 + test_seed();
    struct ct_event *events = some_events(N, 0);
    struct ct_out o = {body, body + sizeof body, 0};
    ct_encode_plain(&o, events, N);
    assert_false(o.bad);
    struct ct_in all = {body, o.at, 0}, section;
    unsigned kind = 0;
    assert_int_equal(ct_section_next(&all, &kind, &section), 1);
    assert_int_equal(kind, CT_SECTION_EVENTS);
    struct ct_decoder r = {.memory = NULL}; // needs none
    assert_int_equal(ct_decoder_open(&r, section), 0);
    for (size_t i = 0; i < N; i++) {
        struct ct_event got = {.present = 0};
        assert_int_equal(ct_decoder_next(&r, &got), 1);
        assert_int_equal(r.exact, 1);
        same(&got, &events[i]);
    }
    free(events);
}

TEST(cuts_of_a_body) {
    enum { N = 60000 };
    static uint8_t body[8 << 20];
    size_t size, cuts = 0;
    chance = 31 + test_seed();
    struct ct_event *events = some_events(N, 1);
    uint8_t *section = whole_section(events, N, &size);
    struct ct_out o = {body, body + sizeof body, 0};
    uint8_t *at = ct_section_begin(&o, CT_SECTION_INFO);
    ct_section_end(&o, at);
    at = ct_section_begin(&o, CT_SECTION_EVENTS);
    ct_put_bytes(&o, section, size);
    ct_section_end(&o, at);
    const size_t bytes = (size_t)(o.at - body);
    for (size_t cut = 0; cut < bytes; cuts++) {
        const size_t next = ct_body_next_cut(body, bytes, cut);
        assert_true(next > cut && next <= bytes && (next == bytes || next - cut >= CT_CUT_BYTES));
        cut = next;
    }
    assert_true(cuts > 5);
    assert_int_equal(ct_body_next_cut(body, 0, 0), 0);
    free(section);
    free(events);
}

TEST(ticks_are_bounded) {
    static const uint64_t ticks[] = {0, CT_MAX_TICK_NS + UINT64_C(1), UINT64_MAX};
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++) {
        uint8_t section[64];
        struct ct_out o = {section, section + sizeof section, 0};
        ct_put_varint(&o, 1);
        ct_encoder_put_column_head(&o, CT_COLUMN_TEMPLATE, 1);
        ct_put_bytes(&o, "", 1);
        ct_encoder_put_column_head(&o, CT_COLUMN_TIME_MORE, ticks[i] ? (ticks[i] + 1 ? 3 : 10) : 1);
        ct_put_varint(&o, ticks[i]);
        int rc;
        (void)reader(section, (size_t)(o.at - section), &rc);
        assert_int_equal(rc, -1);
    }
}

TEST(memory_is_bounded) {
    assert_true(ct_encoder_memory_bytes() <= 512 << 10);
}

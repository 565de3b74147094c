// SPDX-License-Identifier: Apache-2.0
// Segments: where a trace whose beginning is overwritten can be read from.
#include "write/checkpoint_writer.h"

#include "base/options.h"
#include "base/pages.h"
#include "store/memory_chunks.h"
#include "store/trace_file.h"
#include "write/dictionary.h"
#include "write/open_chunk.h"

#define UNBOUNDED_SEGMENT (64u << 20) // bytes of a segment where the file has no bound
#define PART_LEAST 4096u              // objects in a part of a checkpoint
#define PART_MOST 32768u
#define RECORDS 64u         // of a part, at a time
#define RECORD_BYTES 12u    // of an object in a checkpoint, compressed, before that is known
#define TOTALS 4096u        // call sites of an inexact checkpoint
#define SURROUNDINGS 65536u // events that are kept before a refused allocation
#define RECENT 16u

// A segment whose checkpoint is complete.
struct segment {
    uint64_t seq, exact_event;
};

static struct {
    enum { NONE, FIRST, MORE } part; // of the checkpoint: which one comes next
    struct ct_checkpoint checkpoint;
    int inexact, last; // what the part in the chunk that is being filled is
    uint64_t seq;      // of the segment's first chunk
    uint64_t objects, part_objects;
    uint64_t bytes;            // of the segment in the file
    uint64_t checkpoint_bytes; // of the last checkpoint in the file
    uint64_t part_bytes;       // of the parts so far, before compression
    uint64_t each;             // bytes that an object took in the last exact one; 0: not known
    int begun, broken;         // a segment was begun; a part of its checkpoint is lost
    struct segment recent[RECENT];
    unsigned recent_n;
    uint64_t refused_event; // not in the file yet
    int has_refused, kept_first, keeps;
    uint8_t *columns; // memory for encoding
    struct ct_total *totals;
} g;

// ---- when -----------------------------------------------------------------------------------

// The bytes that are certainly the ring's: half of the file may be kept for refused allocations.
static uint64_t ring_bytes(void) {
    const uint64_t most = ct_output_capacity();
    return ct_shelf_bound(g.keeps ? most / 2 : most);
}

// A segment is an eighth of the ring, or longer if its checkpoint is large; but never so long that the one before
// would be overwritten while its own checkpoint is not complete.
static uint64_t segment_bytes(void) {
    const uint64_t ring = ring_bytes();
    const uint64_t thrice = g.checkpoint_bytes * 3;
    if (!ring)
        return thrice > UNBOUNDED_SEGMENT ? thrice : UNBOUNDED_SEGMENT;
    return thrice < ring / 8 ? ring / 8 : thrice < ring / 2 ? thrice : ring / 2;
}

int ct_checkpoint_writer_is_due(void) {
    return !g.begun || g.broken || (g.part == NONE && g.bytes >= segment_bytes());
}

int ct_checkpoint_writer_is_busy(void) {
    return g.part != NONE;
}

// ---- checkpoints ----------------------------------------------------------------------------

// Whether the state is too large to be written whole into this file.
static int is_too_large(uint64_t objects) {
    return ring_bytes() && objects * (g.each ? g.each : RECORD_BYTES) > ring_bytes() / 4;
}

void ct_checkpoint_writer_begin(uint64_t seq, const struct ct_live *live) {
    uint64_t objects = 0;
    for (unsigned k = 0; k < CT_KINDS_END; k++)
        objects += live->of_kind[k];
    g.inexact = is_too_large(objects);
    if (g.inexact && !g.totals && !(g.totals = ct_pages(TOTALS * sizeof *g.totals)))
        g.inexact = 0;
    if (g.inexact) {
        (void)ct_checkpoint_sum(live, g.totals, TOTALS);
        ct_checkpoint_begin_totals(&g.checkpoint, live, g.totals, TOTALS);
    } else {
        ct_checkpoint_begin(&g.checkpoint, live);
    }
    g.part = FIRST;
    g.seq = seq;
    g.objects = objects;
    g.part_objects = objects / 16 < PART_LEAST  ? PART_LEAST
                     : objects / 16 > PART_MOST ? PART_MOST
                                                : objects / 16;
    g.part_bytes = g.bytes = 0;
    g.begun = 1;
    g.broken = 0;
}

int ct_checkpoint_writer_is_inexact(void) {
    return g.inexact;
}

// Each column has a place of its own, that is large enough for every record of a part.
#define COLUMN_BYTES (((PART_MOST + RECORDS) * 11 + 4095) & ~4095u)

static int column_room(void *unused, unsigned column, struct ct_out *out) {
    (void)unused;
    if (out->at)
        return -1;
    out->at = g.columns + (size_t)column * COLUMN_BYTES;
    out->end = out->at + COLUMN_BYTES;
    return 0;
}

static int put_records(struct ct_columns *c, struct ct_event *records, size_t n) {
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        ct_dictionary_map(&records[i]);
        c->next_ns = records[i].t_ns + CT_NUMBER(TICK_NS); // objects need no exact time
        rc = ct_columns_put(c, &records[i]);
    }
    return rc;
}

// Encodes the next objects; stops early when their definitions fill the chunk. An inexact one is one part.
static int encode_part(struct ct_columns *c, const struct ct_live *live,
                       const struct ct_readings *readings) {
    static struct ct_event records[RECORDS];
    int rc = 0;
    while (!rc && g.checkpoint.pass != CT_PASS_DONE &&
           (g.inexact || (c->records < g.part_objects &&
                          ct_open_chunk_blocks_left() > 4 * CT_OPEN_CHUNK_RESERVE_BLOCKS)))
        rc = put_records(c, records,
                         ct_checkpoint_next(&g.checkpoint, live, readings, records, RECORDS));
    return rc;
}

static void put_part(struct ct_out *out, const struct ct_columns *c) {
    uint8_t *const length_at = ct_section_begin(out, CT_SECTION_CHECKPOINT);
    ct_put_varint(out, (g.part == FIRST ? CT_CHECKPOINT_FIRST : 0u) |
                           (g.last ? CT_CHECKPOINT_LAST : 0u) |
                           (g.inexact ? CT_CHECKPOINT_INEXACT : 0u));
    ct_put_varint(out, c->records);
    for (unsigned i = 0; i < CT_COLUMNS && c->records; i++) {
        const uint8_t *start = g.columns + (size_t)i * COLUMN_BYTES;
        if (!c->stream[i].at)
            continue;
        ct_columns_head(out, i, (uint32_t)(c->stream[i].at - start));
        ct_put_bytes(out, start, (size_t)(c->stream[i].at - start));
    }
    ct_section_end(out, length_at);
}

static void put_history(struct ct_out *out, const struct ct_history *history) {
    uint8_t *const length_at = ct_section_begin(out, CT_SECTION_HISTORY);
    ct_history_encode(history, out);
    ct_section_end(out, length_at);
}

unsigned ct_checkpoint_writer_put_sections(const struct ct_live *live,
                                           const struct ct_readings *readings,
                                           const struct ct_history *history, struct ct_out *out) {
    struct ct_columns *c = ct_open_chunk_get_encoder();
    const unsigned flags = g.part == FIRST ? CT_CHUNK_SEGMENT : 0;
    const uint8_t *const start = out->at;
    if (g.part == NONE)
        return 0;
    if (!g.columns && !(g.columns = ct_pages((size_t)CT_COLUMNS * COLUMN_BYTES)))
        return ct_checkpoint_writer_chunk_lost(), 0;
    if (g.part == FIRST)
        put_history(out, history);
    c->room = column_room;
    const int rc = encode_part(c, live, readings);
    g.last = g.checkpoint.pass == CT_PASS_DONE;
    if (!rc)
        put_part(out, c);
    ct_open_chunk_reset_encoder();
    if (rc || out->bad)
        return ct_checkpoint_writer_chunk_lost(), 0;
    g.part = g.last ? NONE : MORE;
    if (g.last)
        ct_pages_forget(g.columns, (size_t)CT_COLUMNS * COLUMN_BYTES);
    g.part_bytes += (uint64_t)(out->at - start);
    return flags;
}

void ct_checkpoint_writer_chunk_lost(void) {
    g.part = NONE;
    g.broken = 1;
}

// ---- what is kept ---------------------------------------------------------------------------

static void remember(uint64_t exact_event) {
    if (g.recent_n == RECENT) {
        memmove(g.recent, g.recent + 1, (RECENT - 1) * sizeof *g.recent);
        g.recent_n--;
    }
    g.recent[g.recent_n++] = (struct segment){g.seq, exact_event};
}

// The newest segment from which the surroundings can be read exactly; the oldest one there is, if none reaches
// back so far.
static uint64_t surroundings(uint64_t event) {
    uint64_t seq = 0;
    for (unsigned i = 0; i < g.recent_n; i++)
        if (i == 0 || g.recent[i].exact_event + SURROUNDINGS <= event)
            seq = g.recent[i].seq;
    return seq;
}

static void keep(uint64_t last_seq) {
    const uint64_t first_seq = surroundings(g.refused_event);
    ct_output_pin(first_seq, last_seq, g.kept_first ? CT_PIN_LAST : CT_PIN_FIRST);
    g.kept_first = g.keeps = 1;
    g.has_refused = 0;
}

void ct_checkpoint_writer_protect_oom(uint64_t event) {
    g.refused_event = event;
    g.has_refused = 1;
}

void ct_checkpoint_writer_chunk_written(const struct ct_chunk *head, size_t bytes) {
    g.bytes += bytes;
    if (g.last) {
        g.last = 0;
        g.checkpoint_bytes =
            g.part_bytes * head->body_bytes / (head->raw_bytes ? head->raw_bytes : 1);
        if (!g.inexact) {
            remember(head->first_event);
            g.each = g.objects < PART_LEAST ? 0 : g.checkpoint_bytes / g.objects + 1;
        }
    }
    if (g.has_refused && g.refused_event < head->first_event + head->events)
        keep(head->seq);
}

void ct_checkpoint_writer_reinit_child(void) {
    memset(&g, 0, sizeof g); // its memory is left alone: what was being done with it is unknown
}

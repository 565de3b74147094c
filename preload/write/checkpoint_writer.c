// SPDX-License-Identifier: Apache-2.0
// Restart points and checkpoints. The distance between two restart points is a part of the ring, so
// that at least one complete checkpoint is always in the file. After an OOM, the chunks that led to
// it are protected from being overwritten.
#include "write/checkpoint_writer.h"

#include <cutrace/format/encode.h>

#include "base/options.h"
#include "base/pages.h"
#include "store/file_ring.h"
#include "store/memory_chunks.h"
#include "write/dictionary.h"
#include "write/open_chunk.h"

#define UNBOUNDED_INTERVAL (64u << 20) // bytes between restart points where the file has no limit
#define PART_LEAST 4096u               // objects in a checkpoint part
#define PART_MOST 32768u
#define RECORDS 64u       // of a checkpoint part, encoded at a time
#define RECORD_BYTES 12u  // of a compressed object, as long as the real number is not known
#define SITE_SUMS 4096u   // call sites of an inexact checkpoint
#define OOM_EVENTS 65536u // events before an OOM that are protected
#define RECENT 16u

// A restart point whose checkpoint is complete and exact: reading is exact from `exact_event` on.
struct restart_point {
    uint64_t seq, exact_event;
};

static struct {
    enum { NONE, FIRST, MORE } part; // the checkpoint part that comes next
    struct ct_checkpoint checkpoint;
    int inexact, last; // the part in the open chunk: has sums only, is the last one
    uint64_t seq;      // of the restart point
    uint64_t objects, part_objects;
    uint64_t bytes;            // in the file since the restart point
    uint64_t checkpoint_bytes; // of the last complete checkpoint in the file
    uint64_t part_bytes;       // of this checkpoint so far, before compression
    uint64_t object_bytes;     // of an object in the last exact checkpoint; 0: not known
    int begun, broken;         // there was a restart point; a part of its checkpoint is lost
    struct restart_point recent[RECENT];
    unsigned recent_n;
    uint64_t oom_event; // an OOM whose chunk is not in the file yet, if has_oom
    int has_oom, protects;
    uint8_t *columns; // memory of the encoder
    struct ct_site_sum *totals;
} g;

// ---- when -----------------------------------------------------------------------------------

// The bytes that the ring has for certain: half of the file may be protected.
static uint64_t ring_bytes(void) {
    const uint64_t most = ct_file_ring_get_capacity();
    return ct_memory_chunks_limit(g.protects ? most / 2 : most);
}

// Bytes between two restart points: an eighth of the ring, or more if a checkpoint is large, but at
// most half of it: the restart point before must not be overwritten while the checkpoint of the
// newest one is incomplete.
static uint64_t restart_interval(void) {
    const uint64_t ring = ring_bytes();
    const uint64_t thrice = g.checkpoint_bytes * 3;
    if (!ring)
        return thrice > UNBOUNDED_INTERVAL ? thrice : UNBOUNDED_INTERVAL;
    if (thrice < ring / 8)
        return ring / 8;
    return thrice < ring / 2 ? thrice : ring / 2;
}

int ct_checkpoint_writer_is_due(void) {
    return !g.begun || g.broken || (g.part == NONE && g.bytes >= restart_interval());
}

int ct_checkpoint_writer_is_busy(void) {
    return g.part != NONE;
}

// ---- checkpoints ----------------------------------------------------------------------------

// Whether an exact checkpoint would be too large for this file.
static int is_too_large(uint64_t objects) {
    const uint64_t each = g.object_bytes ? g.object_bytes : RECORD_BYTES;
    return ring_bytes() && objects * each > ring_bytes() / 4;
}

static uint64_t choose_part_objects(uint64_t objects) {
    const uint64_t sixteenth = objects / 16;
    if (sixteenth < PART_LEAST)
        return PART_LEAST;
    return sixteenth > PART_MOST ? PART_MOST : sixteenth;
}

void ct_checkpoint_writer_begin(uint64_t seq, const struct ct_live *live) {
    uint64_t objects = 0;
    for (unsigned k = 0; k < CT_KINDS_END; k++)
        objects += live->of_kind[k];
    g.inexact = is_too_large(objects);
    if (g.inexact && !g.totals && !(g.totals = ct_pages_map(SITE_SUMS * sizeof *g.totals)))
        g.inexact = 0;
    if (g.inexact) {
        (void)ct_checkpoint_sum_sites(live, g.totals, SITE_SUMS);
        ct_checkpoint_begin_sums(&g.checkpoint, live, g.totals, SITE_SUMS);
    } else {
        ct_checkpoint_begin(&g.checkpoint, live);
    }
    g.part = FIRST;
    g.seq = seq;
    g.objects = objects;
    g.part_objects = choose_part_objects(objects);
    g.part_bytes = g.bytes = 0;
    g.begun = 1;
    g.broken = 0;
}

int ct_checkpoint_writer_is_inexact(void) {
    return g.inexact;
}

// Bytes of memory for a column: enough for every record of a checkpoint part.
#define COLUMN_BYTES (((PART_MOST + RECORDS) * 11 + 4095) & ~4095u)

static int set_column_memory(void *unused, unsigned column, struct ct_out *out) {
    (void)unused;
    if (out->at)
        return -1;
    out->at = g.columns + (size_t)column * COLUMN_BYTES;
    out->end = out->at + COLUMN_BYTES;
    return 0;
}

static int put_records(struct ct_encoder *c, struct ct_event *records, size_t n) {
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        ct_dictionary_map(&records[i]);
        c->next_ns = records[i].t_ns + CT_OPTION_NUMBER(TICK_NS); // an object needs no exact time
        rc = ct_encoder_put(c, &records[i]);
    }
    return rc;
}

// An inexact checkpoint is one part.
static int has_room_in_part(const struct ct_encoder *c) {
    return g.inexact || (c->records < g.part_objects &&
                         ct_open_chunk_blocks_left() > 4 * CT_OPEN_CHUNK_RESERVE_BLOCKS);
}

// Encodes the next objects; ends early where their definitions fill the chunk.
static int encode_part(struct ct_encoder *c, const struct ct_live *live,
                       const struct ct_readings *readings) {
    static struct ct_event records[RECORDS];
    int rc = 0;
    while (!rc && g.checkpoint.pass != CT_PASS_DONE && has_room_in_part(c))
        rc = put_records(c, records,
                         ct_checkpoint_next(&g.checkpoint, live, readings, records, RECORDS));
    return rc;
}

static void put_part(struct ct_out *out, const struct ct_encoder *c) {
    uint8_t *const length_at = ct_section_begin(out, CT_SECTION_CHECKPOINT);
    ct_put_varint(out, (g.part == FIRST ? CT_CHECKPOINT_FIRST : 0u) |
                           (g.last ? CT_CHECKPOINT_LAST : 0u) |
                           (g.inexact ? CT_CHECKPOINT_INEXACT : 0u));
    ct_put_varint(out, c->records);
    for (unsigned i = 0; i < CT_COLUMNS && c->records; i++) {
        const uint8_t *start = g.columns + (size_t)i * COLUMN_BYTES;
        if (!c->stream[i].at)
            continue;
        ct_encoder_put_column_head(out, i, (uint32_t)(c->stream[i].at - start));
        ct_put_bytes(out, start, (size_t)(c->stream[i].at - start));
    }
    ct_section_end(out, length_at);
}

static void put_history(struct ct_out *out, const struct ct_history *history) {
    uint8_t *const length_at = ct_section_begin(out, CT_SECTION_HISTORY);
    ct_history_encode(history, out);
    ct_section_end(out, length_at);
}

void ct_checkpoint_writer_chunk_lost(void) {
    g.part = NONE;
    g.broken = 1;
}

// Writes no part now; the next chunk is a restart point. Returns no flags.
static unsigned give_up(void) {
    ct_checkpoint_writer_chunk_lost();
    return 0;
}

unsigned ct_checkpoint_writer_put_sections(const struct ct_live *live,
                                           const struct ct_readings *readings,
                                           const struct ct_history *history, struct ct_out *out) {
    struct ct_encoder *c = ct_open_chunk_get_encoder();
    const unsigned flags = g.part == FIRST ? CT_CHUNK_RESTART : 0;
    const uint8_t *const start = out->at;
    if (g.part == NONE)
        return 0;
    if (!g.columns && !(g.columns = ct_pages_map((size_t)CT_COLUMNS * COLUMN_BYTES)))
        return give_up();
    if (g.part == FIRST)
        put_history(out, history);
    c->room = set_column_memory;
    const int rc = encode_part(c, live, readings);
    g.last = g.checkpoint.pass == CT_PASS_DONE;
    if (!rc)
        put_part(out, c);
    ct_open_chunk_reset_encoder();
    if (rc || out->bad)
        return give_up();
    g.part = g.last ? NONE : MORE;
    if (g.last)
        ct_pages_discard(g.columns, (size_t)CT_COLUMNS * COLUMN_BYTES);
    g.part_bytes += (uint64_t)(out->at - start);
    return flags;
}

// ---- protection ----------------------------------------------------------------------------

static void note_restart_point(uint64_t exact_event) {
    if (g.recent_n == RECENT) {
        memmove(g.recent, g.recent + 1, (RECENT - 1) * sizeof *g.recent);
        g.recent_n--;
    }
    g.recent[g.recent_n++] = (struct restart_point){g.seq, exact_event};
}

// The newest restart point from which the events before an OOM can be read exactly; the oldest one
// if none is old enough.
static uint64_t find_restart_point(uint64_t event) {
    uint64_t seq = 0;
    for (unsigned i = 0; i < g.recent_n; i++)
        if (i == 0 || g.recent[i].exact_event + OOM_EVENTS <= event)
            seq = g.recent[i].seq;
    return seq;
}

// The first OOM and the last one are protected.
static void protect(uint64_t last_seq) {
    const uint64_t first_seq = find_restart_point(g.oom_event);
    ct_file_ring_protect(first_seq, last_seq,
                         g.protects ? CT_PROTECTED_LAST_OOM : CT_PROTECTED_FIRST_OOM);
    g.protects = 1;
    g.has_oom = 0;
}

void ct_checkpoint_writer_protect_oom(uint64_t event) {
    g.oom_event = event;
    g.has_oom = 1;
}

void ct_checkpoint_writer_chunk_written(const struct ct_chunk *head, size_t bytes) {
    g.bytes += bytes;
    if (g.last) {
        g.last = 0;
        g.checkpoint_bytes =
            g.part_bytes * head->body_bytes / (head->raw_bytes ? head->raw_bytes : 1);
        if (!g.inexact) {
            note_restart_point(head->first_event);
            g.object_bytes = g.objects < PART_LEAST ? 0 : g.checkpoint_bytes / g.objects + 1;
        }
    }
    if (g.has_oom && g.oom_event < head->first_event + head->events)
        protect(head->seq);
}

void ct_checkpoint_writer_reinit_child(void) {
    // Its memory leaks: another thread of the parent may have been writing to it.
    memset(&g, 0, sizeof g);
}

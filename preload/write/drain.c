// SPDX-License-Identifier: Apache-2.0
// From the rings into the trace: events of all threads, merged in the order of time, are put into
// the open chunk; a full or old chunk is built (compressed) and appended to the file or to the
// memory chunks. Only the holder of the drain lock, the drainer, is in this file.
//
// Steps of a drain: 1 Append the built chunk, if the disk did not take it before. 2 Merge the
// rings: copy a batch of events. 3 Put the batch into the open chunk. 4 Commit the open chunk (in
// the journal: open[committed & 1]). 5 Release the batch's bytes in the rings (their tails). 6 If
// the chunk is full or its deadline is over: build it, append it, begin the next one and commit
// that.
//
// Invariants, for a reader of the file and the journal after a SIGKILL at any point:
// D1 One thread drains: all functions here, and all that other headers call the drainer's, run
//    under the drain lock.
// D2 `drained_ns` of the commit divides the events: those up to it are in the open chunk or in
//    chunks before it, later ones are in the rings. A reader ignores ring records up to drained_ns.
// D3 A commit stands between two events of different times; otherwise no single time could divide
//    them.
// D4 Commit before release: a kill before 4 leaves the events in the rings and the old drained_ns;
//    a kill between 4 and 5 leaves them in both places, and the reader ignores those in the rings.
// D5 A chunk is built only when all of its records are committed. A kill before the append of 6 is
//    complete leaves the journal's copy, from which the reader builds the chunk.
// D6 Chunk numbers count by one. A kill between the append and the commit of 6 leaves chunk `seq`
//    in both places: the reader takes the file's, and keeps drained_ns of the journal's. The stream
//    blocks of a chunk are used again only after the commit that no longer names them
//    (open_chunk.c).
//    A restart point is one in the journal, too: the file may overwrite what is older before it has
//    the chunk.
// D7 While a built chunk waits for the disk, nothing is put into the open chunk: its streams are
//    that chunk.
// D8 The file may have a provisional copy of the open chunk (CT_CHUNK_PROVISIONAL). All of its
//    records are committed before, so the journal has them, too, until the chunk itself is in the
//    file: a reader takes the journal's copy, or, without a journal, the provisional one.
// D9 After the final chunk (CT_CHUNK_LAST) only FINAL drains append: what threads publish during
//    the exit.
#include "write/drain.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <cutrace/format/assert.h>
#include <cutrace/model/failures.h>

#include "base/files.h"
#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "store/chunk_encode.h"
#include "store/journal.h"
#include "store/journal_file.h"
#include "store/memory_chunks.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "store/trace_file.h"
#include "write/checkpoint_writer.h"
#include "write/dictionary.h"
#include "write/drain_lock.h"
#include "write/info_table.h"
#include "write/live_state.h"
#include "write/notes.h"
#include "write/nvml.h"
#include "write/oom_notice.h"
#include "write/open_chunk.h"
#include "write/process_info.h"
#include "write/ring_merge.h"
#include "write/symbolizer.h"

#define BATCH 256u        // events that are merged at a time: they stay in the cache
#define PREFETCH_AHEAD 8u // memory is prefetched for the event that comes so many events later
#define MAX_CHUNK_EVENTS 65536u
#define MIN_CHUNK_EVENTS 1024u                // also in a very small file
#define EXTRA_BYTES (6u << 20)                // the largest checkpoint part and the history
#define BODY_BYTES (EXTRA_BYTES + (2u << 20)) // and what the journal's blocks hold
#define BYTES_PER_EVENT 4u                    // compressed, about
#define INFO_NS UINT64_C(10000000000)         // changed INFO is written this often
// Without a journal file, this is how long an event stays in memory only.
#define UNSAVED_NS UINT64_C(250000000)

// w.deadline_ns for threads that do not hold the lock; 1: now.
static _Atomic uint64_t shared_deadline_ns;

static struct {
    enum { CLOSED, OPEN, FAILED } file;
    uint64_t trace_id, parent_id;
    uint64_t dict_seq; // the chunk that began the generation of dictionaries
    uint64_t lost, info_ns;
    // Limit of records for the open chunk.
    uint64_t chunk_records;
    // Events that the live state has and the open chunk has not yet.
    uint64_t waiting;
    // Of the open chunk: events that its LOST records count, and records of the recorder's own.
    uint64_t chunk_lost, chunk_own;
    // When the open chunk must be in the file; 0: it is empty.
    uint64_t deadline_ns;
    // CUTRACE_MIN_SIZE or CUTRACE_SAMPLE: frees of unrecorded allocations are dropped.
    int drops_unknown_frees;
    // An allocation failed: the open chunk, and the memory chunks, go to the file at once.
    int close_now;
    _Atomic int flush_now;
    int ended; // the final chunk is in the file

    struct ct_event *batch;
    size_t batch_n;
    // What was prefetched for the next events, by their index modulo the size.
    uint64_t live_lines[2 * PREFETCH_AHEAD];
    struct ct_encoder_probe probes[PREFETCH_AHEAD];

    // The open chunk's sections besides definitions and events (checkpoint part, history) and its
    // flags for them.
    uint8_t *extra;
    size_t extra_bytes;
    unsigned extra_flags;
    // The built chunk; chunk_bytes is 0 unless it waits for the disk.
    uint8_t *chunk;
    _Atomic size_t chunk_bytes;
    struct ct_chunk head;
} w;

static int map_buffers(void) {
    if (!w.batch)
        w.batch =
            ct_pages_map((BATCH + CT_JOURNAL_MAX_RINGS + 1 + PREFETCH_AHEAD) * sizeof *w.batch);
    if (!w.extra)
        w.extra = ct_pages_map(EXTRA_BYTES);
    if (!w.chunk)
        w.chunk = ct_pages_map(ct_chunk_encode_bound(BODY_BYTES));
    return w.batch && w.extra && w.chunk ? 0 : -ENOMEM;
}

int ct_drain_is_stuck(void) {
    return w.chunk_bytes != 0 || w.flush_now;
}

uint64_t ct_drain_deadline_ns(void) {
    return atomic_load_explicit(&shared_deadline_ns, memory_order_relaxed);
}

// ---- chunks ---------------------------------------------------------------------------------

// A chunk is a sixteenth of the file at most, so that a small ring, or one that a full disk has
// made small, is overwritten in small steps.
static uint64_t choose_chunk_records(void) {
    const uint64_t capacity = ct_memory_chunks_limit(ct_file_ring_get_capacity());
    const uint64_t fit = capacity / 16 / BYTES_PER_EVENT;
    if (!capacity || fit > MAX_CHUNK_EVENTS)
        return MAX_CHUNK_EVENTS;
    return fit > MIN_CHUNK_EVENTS ? fit : MIN_CHUNK_EVENTS;
}

static void begin_restart_point(uint64_t seq, uint64_t first_event) {
    ct_info_mark_all_changed();
    ct_info_put_changed();
    ct_checkpoint_writer_begin(seq, ct_live_state_get_live());
    ct_live_state_set_summed_before(ct_checkpoint_writer_is_inexact() ? first_event : 0);
}

// Begins the next chunk, which is empty except for a part of a checkpoint.
static int begin_chunk(uint64_t seq, uint64_t first_event) {
    const int is_restart_point = ct_checkpoint_writer_is_due();
    struct ct_out o = {w.extra, w.extra + EXTRA_BYTES, 0};
    if (is_restart_point || ct_dictionary_wants_generation()) {
        ct_dictionary_begin_generation();
        w.dict_seq = seq;
    }
    w.deadline_ns = w.chunk_lost = w.chunk_own = 0;
    ct_provisional_begin_chunk();
    w.chunk_records = choose_chunk_records();
    const int rc = ct_open_chunk_begin(seq, w.dict_seq, first_event);
    if (rc)
        return rc;
    ct_live_state_begin_digest(first_event);
    if (is_restart_point)
        begin_restart_point(seq, first_event);
    w.extra_flags = ct_checkpoint_writer_put_sections(
        ct_live_state_get_live(), ct_live_state_get_readings(), ct_live_state_get_history(), &o);
    w.extra_bytes = o.bad ? 0 : (size_t)(o.at - w.extra);
    if (w.extra_flags & CT_CHUNK_RESTART)
        ct_open_chunk_mark_restart();
    return 0;
}

// Builds the open chunk.
static int build_chunk(unsigned flags) {
    CT_ASSERT(ct_open_chunk_is_committed()); // D5
    const struct ct_digest *digest = ct_live_state_end_digest(ct_dictionary_find_stack);
    if (ct_dictionary_count_dropped_stacks())
        digest = NULL;
    w.head = (struct ct_chunk){.flags = flags | w.extra_flags, .trace_id = w.trace_id};
    w.chunk_bytes = ct_open_chunk_build(&w.head, w.extra, w.extra_bytes, digest, w.chunk,
                                        ct_chunk_encode_bound(BODY_BYTES));
    return w.chunk_bytes ? 0 : -ENOMEM;
}

// Gives up a chunk that can never be in the file: it is too large for it, or the compressor got no
// memory. Its definitions are lost with it, so a restart point follows.
static int drop_chunk(void) {
    const struct ct_journal_open *open = ct_open_chunk_get();
    atomic_fetch_add(&ct_ring_lost_without_ring, open->events - w.chunk_own + w.chunk_lost);
    w.lost -= w.chunk_lost; // a record to come counts them
    ct_checkpoint_writer_chunk_lost();
    ct_live_state_drop_digests();
    ct_trace_file_drop_provisional();
    w.chunk_bytes = 0;
    return begin_chunk(open->seq, open->first_event);
}

static int drain_rings(int closes);

// Writes all memory chunks of now into the file. This may take long; with `drains_rings`, the rings
// are emptied meanwhile. -errno: some chunks are not written.
static int flush_memory_chunks(int drains_rings) {
    const uint64_t end = ct_memory_chunks_get_end();
    int rc;
    while ((rc = ct_memory_chunks_flush(end)) == -EAGAIN &&
           (!drains_rings || !(rc = drain_rings(1))))
        ;
    ct_notes_add(ct_trace_file_take_error());
    w.flush_now = rc != 0;
    return rc;
}

// Appends the built chunk, if there is one, and begins the next one. A chunk that the disk does not
// take stays built (D7); its contents stay in the journal, too.
static int append_chunk(void) {
    if (!w.chunk_bytes)
        return 0;
    CT_ASSERT(w.head.seq == ct_open_chunk_get()->seq); // D6
    const int rc = ct_memory_chunks_append(w.chunk, w.chunk_bytes, w.head.seq, w.head.flags);
    ct_notes_add(ct_trace_file_take_error());
    // On a full disk, a chunk that was begun earlier is too large for the space that remains;
    // smaller ones fit.
    if (rc == -EFBIG || (rc == -ENOSPC && w.chunk_bytes > ct_file_ring_get_capacity() / 2))
        return drop_chunk();
    if (rc)
        return rc;
    ct_checkpoint_writer_chunk_written(&w.head, w.chunk_bytes);
    w.chunk_bytes = 0;
    w.ended = (w.head.flags & CT_CHUNK_LAST) != 0;
    if (w.ended && !flush_memory_chunks(0))
        (void)ct_trace_file_trim();
    return begin_chunk(w.head.seq + 1, w.head.first_event + w.head.events);
}

static int close_chunk(unsigned flags) {
    w.close_now = 0;
    return build_chunk(flags) ? drop_chunk() : append_chunk();
}

// ---- a batch --------------------------------------------------------------------------------

// Whether the open chunk must be closed before another batch.
static int is_full(void) {
    const uint64_t capacity = ct_memory_chunks_limit(ct_file_ring_get_capacity());
    return ct_open_chunk_get()->records >= w.chunk_records ||
           ct_open_chunk_blocks_left() < 2 * CT_OPEN_CHUNK_RESERVE_BLOCKS ||
           (capacity && ct_open_chunk_definition_bytes() >= capacity / 2);
}

// Whether it must be closed before another event: where a batch brings many new stacks.
static int is_full_inside_batch(void) {
    return ct_open_chunk_blocks_left() < CT_OPEN_CHUNK_RESERVE_BLOCKS;
}

// Counters for readers of the journal.
static void report_counters(void) {
    struct ct_journal *j = ct_journal_get();
    atomic_store_explicit(&j->events,
                          ct_open_chunk_get()->first_event + ct_open_chunk_get()->events,
                          memory_order_relaxed);
    atomic_store_explicit(&j->bytes_written, ct_file_ring_get_written_bytes(),
                          memory_order_relaxed);
    ct_live_state_report(j);
}

static int is_own_record(const struct ct_event *e) {
    return e->op == CT_OP_LOST || e->op == CT_OP_NOTE;
}

static void count_own_record(const struct ct_event *e) {
    const uint64_t lost = e->op == CT_OP_LOST ? e->count : 0;
    w.lost += lost;
    w.chunk_lost += lost;
    w.chunk_own++;
}

// Puts an event into the live state and the dictionaries. The chunk gets it a few events later,
// when the memory for that is in the cache.
static inline void put_event(size_t i) {
    struct ct_event *e = &w.batch[i];
    const struct ct_journal_open *open = ct_open_chunk_get();
    const uint64_t number = open->first_event + open->events + w.waiting;
    CT_ASSERT(!w.chunk_bytes);                                 // D7
    CT_ASSERT(is_own_record(e) || e->t_ns > open->drained_ns); // D2
    if (w.drops_unknown_frees && ct_live_state_is_unknown_free(e))
        e->op = 0;
    if (!e->op)
        return;
    const int failed = ct_event_is_failed_allocation(e);
    if (failed)
        w.flush_now = w.close_now = 1;
    if (ct_event_reports_oom(e))
        ct_checkpoint_writer_protect_oom(number);
    if (is_own_record(e))
        count_own_record(e);
    ct_live_state_apply(e, number, w.live_lines[i % (2 * PREFETCH_AHEAD)]);
    if (failed || ct_oom_notice_watches)
        ct_oom_notice_apply(e);
    ct_dictionary_map(e);
    w.waiting += e->op != CT_OP_AMEND;
    w.probes[i % PREFETCH_AHEAD] = ct_encoder_probe(ct_open_chunk_get_encoder(), e);
}

static inline void put_into_chunk(size_t i) {
    const struct ct_event *e = &w.batch[i];
    if (!e->op)
        return;
    w.waiting -= e->op != CT_OP_AMEND;
    // Fails if the events of one time need more definitions than a chunk holds.
    if (ct_open_chunk_put_event(e, &w.probes[i % PREFETCH_AHEAD], e[1].t_ns)) {
        ct_live_state_drop_digests();
        atomic_fetch_add(&ct_ring_lost_without_ring, 1);
    }
}

// (After the end of the batch lie older events; to prefetch for them does no harm.)
static inline void prefetch_lines(size_t i) {
    ct_dictionary_prefetch(&w.batch[i]);
    w.live_lines[i % (2 * PREFETCH_AHEAD)] = ct_live_state_prefetch_line(&w.batch[i]);
}

static inline void prefetch(size_t i) {
    const size_t near = i + PREFETCH_AHEAD / 2;
    prefetch_lines(i + PREFETCH_AHEAD);
    if (w.batch[near].op == CT_OP_FREE || w.batch[near].op == CT_OP_BLOCK_FREE)
        ct_live_state_prefetch_slots(w.live_lines[near % (2 * PREFETCH_AHEAD)]);
}

// Puts the batch into the open chunk and commits it. Closes the chunk on the way where it is full,
// but only between two events of different times (D3).
static int put_batch(void) {
    size_t put = 0;
    int rc = 0;
    ct_amend_apply(w.batch, w.batch_n);
    w.batch[w.batch_n].t_ns = 0; // the time after the last event is not known
    w.drops_unknown_frees = CT_OPTION_NUMBER(MIN_SIZE) || CT_OPTION_NUMBER(SAMPLE) > 1;
    for (size_t i = 0; i < PREFETCH_AHEAD; i++)
        prefetch_lines(i);
    for (size_t i = 0; i < w.batch_n && !rc; i++) {
        prefetch(i);
        if (is_full_inside_batch() && (!i || w.batch[i].t_ns != w.batch[i - 1].t_ns)) {
            for (; put < i; put++)
                put_into_chunk(put);
            ct_open_chunk_commit(i ? w.batch[i - 1].t_ns : ct_open_chunk_get()->drained_ns);
            if ((rc = close_chunk(0))) {
                // Their bytes in the rings are released nevertheless.
                atomic_fetch_add(&ct_ring_lost_without_ring, w.batch_n - i);
                break;
            }
        }
        put_event(i);
        if (i - put == PREFETCH_AHEAD / 2)
            put_into_chunk(put++);
    }
    for (; !rc && put < w.batch_n; put++)
        put_into_chunk(put);
    if (w.batch_n) {
        ct_live_state_sample_gaps(w.batch[w.batch_n - 1].t_ns);
        ct_open_chunk_commit(w.batch[w.batch_n - 1].t_ns);
    }
    w.batch_n = 0;
    return rc;
}

static void add_lost(uint64_t count, uint32_t thread, uint64_t t_ns) {
    struct ct_event e = {.present = 0};
    if (!count)
        return;
    CT_SET(&e, op, CT_OP_LOST);
    CT_SET(&e, t_ns, t_ns);
    CT_SET(&e, count, count);
    if (thread)
        CT_SET(&e, thread, thread);
    w.batch[w.batch_n++] = e;
}

// Puts the note, and LOST records for threads that have recorded nothing since; other threads
// report their losses before their next event.
static int put_own_records(uint64_t t_ns) {
    int rc = 0;
    w.batch_n += ct_notes_take(&w.batch[w.batch_n], t_ns);
    for (struct ct_ring *r = ct_rings(); r && !rc; r = r->next) {
        struct ct_journal_ring *s = r->shared;
        if (!atomic_load_explicit(&s->lost, memory_order_relaxed) ||
            atomic_load_explicit(&s->head, memory_order_acquire) != atomic_load(&s->tail))
            continue;
        add_lost(atomic_exchange(&s->lost, 0), atomic_load(&s->thread), t_ns);
        if (w.batch_n >= BATCH)
            rc = put_batch();
    }
    if (!rc)
        add_lost(atomic_exchange(&ct_ring_lost_without_ring, 0), 0, t_ns);
    return rc ? rc : put_batch();
}

// ---- a drain --------------------------------------------------------------------------------

// Renews the recorder's own INFO. Returns whether INFO must be in the file after this drain.
static int renew_info(enum ct_drain_how how) {
    const uint64_t now = ct_clock_read();
    if (w.ended) // D9
        return 0;
    if (how < CT_DRAIN_INFO && now - w.info_ns < INFO_NS)
        return 0;
    w.info_ns = now;
    ct_info_refresh();
    ct_info_set("recorder.clock", "%s", ct_clock_get_source());
    ct_info_set("recorder.stacks_full", "%lu", atomic_load(&ct_stack_table_dropped));
    ct_info_set("recorder.bytes_written", "%lu", ct_file_ring_get_written_bytes());
    if (how == CT_DRAIN_FINAL)
        ct_info_set("recorder.end", "exit");
    return how >= CT_DRAIN_INFO;
}

// INFO has the sum of all LOST records: a ring file overwrites them, and what is live afterwards is
// wrong by them.
static void renew_lost(void) {
    atomic_store_explicit(&ct_journal_get()->lost, w.lost, memory_order_relaxed);
    ct_info_set("recorder.lost_events", "%lu", w.lost);
}

// Without a file, events are drained all the same, and counted as lost.
static void discard_events(void) {
    for (ct_ring_merge_begin(); ct_ring_merge_has_more(); ct_ring_merge_release())
        w.lost += ct_ring_merge_copy(w.batch, BATCH);
}

// Steps 2 to 6 for all events below the safe limit of this drain. Unless it `closes` full chunks,
// it ends where one must be closed.
static int drain_rings(int closes) {
    int rc = 0;
    const uint64_t limit = ct_ring_merge_begin();
    while (ct_ring_merge_has_more()) {
        if (is_full() && (rc = closes ? close_chunk(0) : -EBUSY))
            return rc;
        w.batch_n = ct_ring_merge_copy(w.batch, BATCH);
        rc = put_batch();
        ct_ring_merge_release(); // D4: after the commit
        if (rc)
            return rc;
    }
    return limit ? put_own_records(limit - 1)
                 : 0; // an event of the time `limit` is still in its ring
}

static uint64_t flush_interval_ns(void) {
    if (ct_journal_is_file() || CT_OPTION_NUMBER(FLUSH_MS) < UNSAVED_NS)
        return CT_OPTION_NUMBER(FLUSH_MS);
    return UNSAVED_NS;
}

// Whether the open chunk must be closed now.
static int must_close(enum ct_drain_how how, int info) {
    const uint64_t now = ct_clock_read();
    if (!ct_open_chunk_get()->records && !ct_open_chunk_definition_bytes() && !w.extra_bytes)
        return (how == CT_DRAIN_FINAL && !w.ended) || info;
    if (!w.deadline_ns)
        w.deadline_ns = now + flush_interval_ns();
    return how != CT_DRAIN_EVENTS || info || w.close_now || ct_checkpoint_writer_is_busy() ||
           now >= w.deadline_ns;
}

static void drain_and_close(enum ct_drain_how how) {
    const int info = renew_info(how);
    if (drain_rings(1))
        return;
    renew_lost();
    ct_info_put_changed();
    ct_open_chunk_commit(ct_open_chunk_get()->drained_ns);
    if (how == CT_DRAIN_FLUSH || how == CT_DRAIN_FINAL)
        w.flush_now = 1;
    int rc = 0;
    if (must_close(how, info))
        rc = close_chunk(how == CT_DRAIN_FINAL ? CT_CHUNK_LAST : 0);
    if (!rc && w.flush_now)
        rc = flush_memory_chunks(how != CT_DRAIN_FINAL);
    // Rings may still have events: one stays while another thread may yet publish an older one.
    if (!rc && how == CT_DRAIN_FINAL && ct_rings_are_empty())
        ct_journal_remove_file();
}

// Shares the time at which the next drain must be.
static void share_deadline(void) {
    const uint64_t first = ct_provisional_plan(
        ct_open_chunk_get()->records + ct_open_chunk_definition_bytes(), flush_interval_ns());
    uint64_t deadline = w.deadline_ns;
    if (first && (!deadline || first < deadline))
        deadline = first;
    if (ct_checkpoint_writer_is_busy())
        deadline = 1;
    if (w.ended) // D9: no drain would meet it
        deadline = 0;
    atomic_store_explicit(&shared_deadline_ns, deadline, memory_order_relaxed);
}

void ct_drain_update_file(void) {
    CT_ASSERT(ct_drain_lock_is_held()); // D1
    if (w.file != OPEN || w.ended || w.chunk_bytes || !ct_provisional_is_due())
        return;
    CT_ASSERT(ct_open_chunk_is_committed()); // D8
    struct ct_chunk head = {.flags = CT_CHUNK_PROVISIONAL | w.extra_flags, .trace_id = w.trace_id};
    const size_t n = ct_open_chunk_build(&head, w.extra, w.extra_bytes, NULL, w.chunk,
                                         ct_chunk_encode_bound(BODY_BYTES));
    if (n)
        (void)ct_trace_file_put_provisional(w.chunk, n);
    ct_provisional_note_written();
    share_deadline();
}

void ct_drain_run(enum ct_drain_how how) {
    CT_ASSERT(ct_drain_lock_is_held());   // D1
    if (w.ended && how != CT_DRAIN_FINAL) // D9
        return;
    if (w.file == CLOSED && ct_drain_open_trace())
        w.file = FAILED;
    if (map_buffers())
        return;
    if (w.file == FAILED) {
        discard_events();
        return;
    }
    if (!ct_notes_has())
        ct_notes_report(ct_journal_budget_take_error());
    if (append_chunk())
        return;
    drain_and_close(how);
    share_deadline();
    report_counters();
}

void ct_drain_look(void) {
    CT_ASSERT(ct_drain_lock_is_held()); // D1
    if (w.file == OPEN && !w.ended && !w.chunk_bytes && !map_buffers())
        (void)drain_rings(0);
}

// ---- opening --------------------------------------------------------------------------------

static void report_no_journal(const char *error) {
    char text[300];
    ct_print(text, sizeof text,
             "no journal beside the trace: %s; a killed process loses its last %u ms%s", error,
             (unsigned)(UNSAVED_NS / 1000000),
             ct_journal_budget_take_error() ? ", and CUTRACE_MEMORY is not in force" : "");
    ct_notes_report(text);
}

static int make_trace(void) {
    if (map_buffers())
        return -ENOMEM;
    int rc = ct_trace_file_open();
    if (rc)
        return rc;
    if (getrandom(&w.trace_id, sizeof w.trace_id, GRND_NONBLOCK) != sizeof w.trace_id)
        w.trace_id = (ct_clock_read() ^ (uint64_t)getpid() << 40) * UINT64_C(0x9E3779B97F4A7C15);
    if ((rc = ct_journal_open(ct_trace_file_get_path(), w.trace_id, ct_name_get_text)))
        return rc;
    if ((rc = ct_live_state_init()))
        return rc;
    return begin_chunk(0, 0);
}

int ct_drain_open_trace(void) {
    CT_ASSERT(ct_drain_lock_is_held()); // D1
    if (w.file != CLOSED)
        return w.file == OPEN ? 0 : -EIO;
    const int rc = make_trace();
    w.file = rc ? FAILED : OPEN;
    if (rc)
        return rc;
    if (ct_journal_get_error())
        report_no_journal(ct_journal_get_error());
    ct_process_info_publish();
    ct_info_set("recorder.files", "%s%s",
                ct_files_are_apart() ? "apart" : "in the program's table: ",
                ct_files_are_apart() ? "" : ct_files_get_reason());
    if (w.parent_id)
        ct_info_set("process.parent_trace", "%016lx", w.parent_id);
    ct_drain_run(CT_DRAIN_INFO);
    return 0;
}

// ---- fork -----------------------------------------------------------------------------------

void ct_drain_reinit_child(void) {
    const uint64_t parent = w.file == OPEN ? w.trace_id : w.parent_id;
    // The buffers leak: another thread of the parent may have been writing to them.
    memset(&w, 0, sizeof w);
    w.parent_id = parent;
    ct_notes_reinit_child();
    ct_provisional_begin_chunk();
    ct_drain_lock_reinit_child();
    ct_oom_notice_reinit_child();
    ct_trace_file_reinit_child();
    ct_ring_merge_reinit_child();
    ct_live_state_reinit_child();
    ct_open_chunk_reinit_child();
    ct_checkpoint_writer_reinit_child();
    ct_journal_reinit_child();
    ct_dictionary_reinit_child();
    ct_symbolizer_reinit_child();
    ct_info_reinit_child();
    ct_nvml_reinit_child();
}

// SPDX-License-Identifier: Apache-2.0
// From the rings into the file: events of all threads in the order of time, cut into chunks.
#include "write/drain.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/format/codec.h>

#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "store/chunk_encode.h"
#include "store/journal.h"
#include "store/memory_budget.h"
#include "store/memory_chunks.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "store/trace_file.h"
#include "write/checkpoint_writer.h"
#include "write/dictionary.h"
#include "write/info_table.h"
#include "write/live_state.h"
#include "write/nvml.h"
#include "write/oom_message.h"
#include "write/open_chunk.h"
#include "write/process_info.h"
#include "write/ring_merge.h"
#include "write/symbolizer.h"

#define BATCH 256u             // events that are taken out at a time: they stay in the cache
#define AHEAD 8u               // events ahead of which memory is fetched
#define CHUNK_RECORDS 65536u   // events of a chunk
#define CHUNK_LEAST 1024u      // also in a file that is very small
#define EXTRA_BYTES (6u << 20) // a part of a checkpoint, the history
#define BODY_BYTES (EXTRA_BYTES + (2u << 20)) // the same, and what the journal's blocks hold
#define INFO_NS UINT64_C(10000000000)         // INFO that has changed is written this often
#define REFUSAL_NS UINT64_C(60000000000)      // and refusals are said this often
#define UNKEPT_NS UINT64_C(250000000) // without a journal, an event stays in memory for so long
#define UNKNOWN UINT64_MAX

static _Atomic int lock;
static _Atomic uint64_t due_ns; // w.due_ns, for who does not hold the lock; 1: at once

static struct {
    enum { CLOSED, OPEN, FAILED } file;
    uint64_t trace_id, parent_id;
    uint64_t dict_seq;
    uint64_t lost, info_ns;
    uint64_t chunk_records;         // of the chunk that is being filled: at most so many
    uint64_t waiting;               // events that the state knows and the chunk does not yet have
    uint64_t chunk_lost, chunk_own; // events that it says are lost; records of the recorder's own
    uint64_t due_ns;    // when the chunk that is being filled goes to the file; 0: it is empty
    int new_generation; // with the next chunk
    int leaves_out;     // some allocations are not recorded: so are their give-backs
    int hurry;          // a request was refused: the chunk goes to the file at once
    _Atomic int flush;  // so does what lies on the shelf
    int ended;

    struct ct_event *batch;
    size_t batch_n;
    // Where the batch's next events look, by their place modulo the size.
    uint64_t state_look[2 * AHEAD];
    struct ct_columns_look columns_look[AHEAD];

    uint8_t *extra; // sections of a segment's first chunks, with their flags
    size_t extra_bytes;
    unsigned extra_flags;
    uint8_t *chunk;
    _Atomic size_t chunk_bytes; // of a chunk that is built and not in the file yet
    struct ct_chunk head;

    struct ct_event note;    // still to be put
    struct ct_event refused; // the first one since the last line on stderr
    uint64_t refused_said_ns;
} w;

// ---- the lock -------------------------------------------------------------------------------

int ct_drain_lock_try(struct ct_shield *shield) {
    int open = 0;
    if (atomic_load_explicit(&lock, memory_order_relaxed)) // the shield is five system calls
        return -EBUSY;
    ct_shield_up(shield);
    if (atomic_compare_exchange_strong_explicit(&lock, &open, 1, memory_order_acquire,
                                                memory_order_relaxed))
        return 0;
    ct_shield_down(shield);
    return -EBUSY;
}

int ct_drain_lock_wait(struct ct_shield *shield, unsigned ms) {
    const struct timespec pause = {0, 200000};
    for (unsigned i = 0; i <= ms * 5; i++) {
        if (!ct_drain_lock_try(shield))
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_drain_lock_release(struct ct_shield *shield) {
    atomic_store_explicit(&lock, 0, memory_order_release);
    ct_shield_down(shield);
}

// ---- chunks ---------------------------------------------------------------------------------

static int buffers(void) {
    if (!w.batch)
        w.batch = ct_pages((BATCH + CT_RINGS + 1 + AHEAD) * sizeof *w.batch);
    if (!w.extra)
        w.extra = ct_pages(EXTRA_BYTES);
    if (!w.chunk)
        w.chunk = ct_pages(ct_chunk_bound(BODY_BYTES));
    return w.batch && w.extra && w.chunk ? 0 : -ENOMEM;
}

int ct_drain_is_stuck(void) {
    return w.chunk_bytes != 0 || w.flush;
}

void ct_drain_new_generation(void) {
    w.new_generation = 1;
}

uint64_t ct_drain_deadline_ns(void) {
    return atomic_load_explicit(&due_ns, memory_order_relaxed);
}

static void begin_generation(uint64_t seq) {
    ct_dictionary_begin_generation();
    w.new_generation = 0;
    w.dict_seq = seq;
}

// A chunk is a sixteenth of the file at most, so that a small ring, or one that a full disk has made small, still
// goes round in steps. An event takes about 4 bytes.
static uint64_t chunk_records(void) {
    const uint64_t capacity = ct_shelf_bound(ct_output_capacity()), fit = capacity / 16 / 4;
    return !capacity || fit > CHUNK_RECORDS ? CHUNK_RECORDS : fit > CHUNK_LEAST ? fit : CHUNK_LEAST;
}

// The next chunk, empty but for what a segment begins with.
static int begin_chunk(uint64_t seq, uint64_t first_event) {
    const int segment = ct_checkpoint_writer_is_due();
    struct ct_out o = {w.extra, w.extra + EXTRA_BYTES, 0};
    if (segment || w.new_generation || ct_dictionary_is_full())
        begin_generation(seq);
    w.due_ns = w.chunk_lost = w.chunk_own = 0;
    w.chunk_records = chunk_records();
    const int rc = ct_open_chunk_begin(seq, w.dict_seq, first_event);
    if (rc)
        return rc;
    if (segment) {
        ct_info_mark_all_changed();
        ct_info_put_changed();
        ct_checkpoint_writer_begin(seq, ct_live_state_get_live());
        ct_live_state_set_summed_before(ct_checkpoint_writer_is_inexact() ? first_event : 0);
    }
    w.extra_flags =
        ct_checkpoint_writer_put_sections(ct_live_state_get_live(), ct_live_state_get_readings(), ct_live_state_get_history(), &o);
    w.extra_bytes = o.bad ? 0 : (size_t)(o.at - w.extra);
    return 0;
}

// Builds the chunk from what was put into it.
static int build_chunk(unsigned flags) {
    struct ct_journal_open *now = ct_open_chunk_get();
    w.head = (struct ct_chunk){.flags = now->flags | flags | w.extra_flags,
                               .seq = now->seq,
                               .dict_seq = now->dict_seq,
                               .first_event = now->first_event,
                               .events = now->events,
                               .t_first_ns = now->t_first_ns,
                               .t_last_ns = now->t_last_ns,
                               .trace_id = w.trace_id};
    if (ct_chunk_begin(ct_open_chunk_body_bytes() + w.extra_bytes, (int)CT_NUMBER(COMPRESS), w.chunk,
                       ct_chunk_bound(BODY_BYTES)))
        return -ENOMEM;
    ct_open_chunk_encode(w.extra, w.extra_bytes);
    w.chunk_bytes = ct_chunk_end(&w.head);
    return w.chunk_bytes ? 0 : -ENOMEM;
}

// What the recorder itself has to say about the trace; NULL: nothing.
static void put_note(const char *text) {
    struct ct_event e = {.present = 0};
    if (!text || w.note.op)
        return;
    CT_SET(&e, op, CT_OP_NOTE);
    CT_SET(&e, text, ct_text("%s", text));
    w.note = e;
}

// The same, and on stderr.
static void tell(const char *text) {
    char line[300];
    if (!text)
        return;
    ct_print(line, sizeof line, "cutrace: %s\n", text);
    if (!CT_NUMBER(QUIET))
        ct_say(line);
    put_note(text);
}

// The chunk can never be in the file: too large for it, or no memory for the compressor. Its definitions are gone
// as well.
static int drop_chunk(void) {
    const struct ct_journal_open *now = ct_open_chunk_get();
    atomic_fetch_add(&ct_ring_lost_without_ring, now->events - w.chunk_own + w.chunk_lost);
    ct_checkpoint_writer_chunk_lost();
    w.chunk_bytes = 0;
    return begin_chunk(now->seq, now->first_event);
}

static int take_all(void);

// What lies on the shelf by now goes to the file; rings are emptied meanwhile. -errno: not all of it.
static int flush_shelf(int take) {
    const uint64_t end = ct_shelf_end();
    int rc;
    while ((rc = ct_shelf_flush(end)) == -EAGAIN && (!take || !(rc = take_all())))
        ;
    put_note(ct_output_trouble());
    w.flush = rc != 0;
    return rc;
}

// Puts the chunk that is built into the file, and begins the next one. One that the disk does not take is kept
// for the next time, in the journal, too.
static int push_chunk(void) {
    if (!w.chunk_bytes)
        return 0;
    const int rc = ct_shelf_append(w.chunk, w.chunk_bytes, w.head.seq, w.head.flags);
    put_note(ct_output_trouble());
    // On a disk that is full, a chunk that was begun before is too large for what is left; smaller ones will do.
    if (rc == -EFBIG || (rc == -ENOSPC && w.chunk_bytes > ct_output_capacity() / 2))
        return drop_chunk();
    if (rc)
        return rc;
    ct_checkpoint_writer_chunk_written(&w.head, w.chunk_bytes);
    w.chunk_bytes = 0;
    w.ended = (w.head.flags & CT_CHUNK_LAST) != 0;
    if (w.ended && !flush_shelf(0))
        (void)ct_output_close_clean();
    return begin_chunk(w.head.seq + 1, w.head.first_event + w.head.events);
}

// Ends the chunk that is being filled. Until it is in the file, nothing is put anywhere.
static int close_chunk(unsigned flags) {
    w.hurry = 0;
    return build_chunk(flags) ? drop_chunk() : push_chunk();
}

// ---- refusals -------------------------------------------------------------------------------

static void note_refusal(const struct ct_event *e, uint64_t number) {
    w.flush = w.hurry = 1;
    if (e->op != CT_OP_BLOCK_OOM && !ct_event_is_oom(e))
        return;
    ct_checkpoint_writer_protect_oom(number);
    if (ct_event_is_oom(e) && !w.refused.op &&
        (!w.refused_said_ns || e->t_ns - w.refused_said_ns > REFUSAL_NS))
        w.refused = *e;
}

static void say_refusal(void) {
    const struct ct_event *e = &w.refused;
    char caller[200] = "", line[2048];
    if (!e->op)
        return;
    w.refused_said_ns = e->t_ns;
    if (!CT_NUMBER(QUIET)) {
        const int device = CT_HAS(e, device) ? e->device : -1;
        if (CT_HAS(e, stack)) {
            ct_symbolizer_resolve_caller(e->stack);
            ct_dictionary_format_caller(e->stack, caller, sizeof caller);
        }
        const struct ct_refusal r = {
            .device = device,
            .bytes = CT_HAS(e, bytes) ? e->bytes : UNKNOWN,
            .free = CT_HAS(e, free_bytes) ? e->free_bytes : UNKNOWN,
            .total = CT_HAS(e, total_bytes) ? e->total_bytes : ct_nvml_get_total_bytes(device),
            .tracked = device >= 0 ? ct_live_state_get_tracked_bytes(device) : UNKNOWN,
            .process = ct_live_state_get_process_bytes(device),
            .api = CT_HAS(e, api) ? ct_name_text(e->api) : NULL,
            .caller = caller,
            .path = ct_output_path(),
        };
        ct_oom_message_format(&r, line, sizeof line);
        ct_say(line);
    }
    w.refused.op = 0;
}

// ---- a batch --------------------------------------------------------------------------------

// The event that an AMEND corrects, if it is in the same batch.
static struct ct_event *amended(const struct ct_event *amend) {
    size_t low = 0, high = w.batch_n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (w.batch[middle].t_ns < amend->amends_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < w.batch_n && w.batch[low].t_ns == amend->amends_ns; low++)
        if (w.batch[low].thread == amend->thread && w.batch[low].op != CT_OP_AMEND)
            return &w.batch[low];
    return NULL;
}

// Corrections of events that are still here are made here: the file then has neither the mistake
// nor the AMEND. Its place in the batch stays, with no operation.
static void apply_amends(void) {
    for (size_t i = 0; i < w.batch_n; i++) {
        const struct ct_event *e = &w.batch[i];
        struct ct_event *target = e->op == CT_OP_AMEND ? amended(e) : NULL;
        if (!target)
            continue;
        if (CT_HAS(e, result))
            CT_SET(target, result, e->result);
        if (CT_HAS(e, duration_ns))
            CT_SET(target, duration_ns, e->duration_ns);
        if (CT_HAS(e, stack))
            CT_SET(target, stack, e->stack);
        w.batch[i].op = 0;
    }
}

// Whether the chunk should be closed before another batch is taken; and before another event: only where a
// batch brings many new stacks.
static int is_full(void) {
    const uint64_t most = ct_shelf_bound(ct_output_capacity());
    return ct_open_chunk_get()->records >= w.chunk_records ||
           ct_open_chunk_blocks_left() < 2 * CT_OPEN_CHUNK_RESERVE_BLOCKS ||
           (most && ct_open_chunk_definition_bytes() >= most / 2);
}

static int is_quite_full(void) {
    return ct_open_chunk_blocks_left() < CT_OPEN_CHUNK_RESERVE_BLOCKS;
}

// For others who look into the journal.
static void tell_counters(void) {
    struct ct_journal *j = ct_journal();
    atomic_store_explicit(&j->events, ct_open_chunk_get()->first_event + ct_open_chunk_get()->events,
                          memory_order_relaxed);
    atomic_store_explicit(&j->lost, w.lost, memory_order_relaxed);
    atomic_store_explicit(&j->bytes_written, ct_output_bytes(), memory_order_relaxed);
    ct_live_state_report(j);
}

// Losses, and what else is no call of the program.
static void count_own(const struct ct_event *e) {
    const uint64_t lost = e->op == CT_OP_LOST ? e->count : 0;
    w.lost += lost;
    w.chunk_lost += lost;
    w.chunk_own++;
}

// Puts what is known of an event into the state and the dictionaries; the chunk gets it a little later, when what that
// takes has been fetched.
static inline void put_event(size_t i) {
    struct ct_event *e = &w.batch[i];
    const uint64_t number = ct_open_chunk_get()->first_event + ct_open_chunk_get()->events + w.waiting;
    if (w.leaves_out && ct_live_state_is_unknown_free(e))
        e->op = 0;
    if (!e->op)
        return;
    if (ct_event_is_failed_allocation(e))
        note_refusal(e, number);
    if (e->op == CT_OP_LOST || e->op == CT_OP_NOTE)
        count_own(e);
    ct_live_state_apply(e, number, w.state_look[i % (2 * AHEAD)]);
    ct_dictionary_map(e);
    w.waiting += e->op != CT_OP_AMEND;
    w.columns_look[i % AHEAD] = ct_columns_look(ct_open_chunk_get_encoder(), e);
}

static inline void put_columns(size_t i) {
    const struct ct_event *e = &w.batch[i];
    if (!e->op)
        return;
    w.waiting -= e->op != CT_OP_AMEND;
    if (ct_open_chunk_put_event(e, &w.columns_look[i % AHEAD], e[1].t_ns))
        atomic_fetch_add(&ct_ring_lost_without_ring, 1); // more definitions at one time than a chunk holds
}

// (Behind the end of the batch lie older events, which do no harm.)
static inline void look(size_t i) {
    ct_dictionary_prefetch(&w.batch[i]);
    w.state_look[i % (2 * AHEAD)] = ct_live_state_prefetch_line(&w.batch[i]);
}

static inline void fetch(size_t i) {
    const size_t near = i + AHEAD / 2;
    look(i + AHEAD);
    if (w.batch[near].op == CT_OP_FREE || w.batch[near].op == CT_OP_BLOCK_FREE)
        ct_live_state_prefetch_slots(w.state_look[near % (2 * AHEAD)]);
}

// Puts the batch into the chunk. A chunk ends only between two events of different times: then one time tells
// what has left the rings.
static int put_batch(void) {
    size_t put = 0;
    int rc = 0;
    apply_amends();
    w.batch[w.batch_n].t_ns = 0; // what comes behind the last one is not known
    w.leaves_out = CT_NUMBER(MIN_SIZE) || CT_NUMBER(SAMPLE) > 1;
    for (size_t i = 0; i < AHEAD; i++)
        look(i);
    for (size_t i = 0; i < w.batch_n && !rc; i++) {
        fetch(i);
        if (is_quite_full() && (!i || w.batch[i].t_ns != w.batch[i - 1].t_ns)) {
            for (; put < i; put++)
                put_columns(put);
            ct_open_chunk_commit(i ? w.batch[i - 1].t_ns : ct_open_chunk_get()->taken_ns);
            if ((rc = close_chunk(0))) {
                atomic_fetch_add(&ct_ring_lost_without_ring, w.batch_n - i); // they are out of their rings
                break;
            }
        }
        put_event(i);
        if (i - put == AHEAD / 2)
            put_columns(put++);
    }
    for (; !rc && put < w.batch_n; put++)
        put_columns(put);
    if (w.batch_n) {
        ct_live_state_sample_gaps(w.batch[w.batch_n - 1].t_ns);
        ct_open_chunk_commit(w.batch[w.batch_n - 1].t_ns);
    }
    w.batch_n = 0;
    return rc;
}

static void put_lost(uint64_t count, uint32_t thread, uint64_t t_ns) {
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

// Losses of threads that have not recorded anything since; otherwise they tell it themselves, in
// its place.
static int put_losses(uint64_t limit) {
    int rc = 0;
    if (w.note.op) {
        CT_SET(&w.note, t_ns, limit);
        w.batch[w.batch_n++] = w.note;
        w.note.op = 0;
    }
    for (struct ct_ring *r = ct_rings(); r && !rc; r = r->next) {
        struct ct_journal_ring *s = r->shared;
        if (!atomic_load_explicit(&s->lost, memory_order_relaxed) ||
            atomic_load_explicit(&s->head, memory_order_acquire) != atomic_load(&s->tail))
            continue;
        put_lost(atomic_exchange(&s->lost, 0), atomic_load(&s->thread), limit);
        if (w.batch_n >= BATCH)
            rc = put_batch();
    }
    if (!rc)
        put_lost(atomic_exchange(&ct_ring_lost_without_ring, 0), 0, limit);
    return rc ? rc : put_batch();
}

static int put_info(enum ct_drain_how how) {
    const uint64_t now = ct_clock();
    if (w.ended) // told at the end; what comes after it comes event by event
        return 0;
    if (how < CT_DRAIN_INFO && now - w.info_ns < INFO_NS)
        return 0;
    w.info_ns = now;
    ct_info_refresh();
    ct_info_set("recorder.lost_events", "%lu", w.lost);
    ct_info_set("recorder.clock", "%s", ct_clock_source());
    ct_info_set("recorder.stacks_full", "%lu", atomic_load(&ct_stacks_full));
    ct_info_set("recorder.bytes_written", "%lu", ct_output_bytes());
    if (how == CT_DRAIN_FINAL)
        ct_info_set("recorder.end", "exit");
    return how >= CT_DRAIN_INFO;
}

// Without a file, events are taken out all the same, and counted.
static void discard(void) {
    for (ct_ring_merge_begin(); ct_ring_merge_has_more(); ct_ring_merge_release())
        w.lost += ct_ring_merge_copy(w.batch, BATCH);
}

// Moves what is old enough from the rings into the chunk, and what fills it on into the file.
static int take_all(void) {
    int rc = 0;
    const uint64_t limit = ct_ring_merge_begin();
    while (ct_ring_merge_has_more()) {
        if (is_full() && (rc = close_chunk(0)))
            return rc;
        w.batch_n = ct_ring_merge_copy(w.batch, BATCH);
        rc = put_batch();
        ct_ring_merge_release();
        if (rc)
            return rc;
    }
    return limit ? put_losses(limit - 1) : 0; // what has the limit's own time is still in its ring
}

// Whether the chunk that is being filled should be in the file by now.
static int is_due(enum ct_drain_how how, int info) {
    const uint64_t now = ct_clock();
    if (!ct_open_chunk_get()->records && !ct_open_chunk_definition_bytes() && !w.extra_bytes)
        return (how == CT_DRAIN_FINAL && !w.ended) || info;
    if (!w.due_ns)
        w.due_ns =
            now + (ct_journal_is_file() || CT_NUMBER(FLUSH_MS) < UNKEPT_NS ? CT_NUMBER(FLUSH_MS)
                                                                           : UNKEPT_NS);
    return how != CT_DRAIN_EVENTS || info || w.hurry || ct_checkpoint_writer_is_busy() || now >= w.due_ns;
}

void ct_drain_run(enum ct_drain_how how) {
    // Behind the end comes only what is put there event by event.
    if (w.ended && how != CT_DRAIN_FINAL)
        return;
    if (w.file == CLOSED && ct_drain_open_trace())
        w.file = FAILED;
    if (buffers())
        return;
    if (w.file == FAILED) {
        discard();
        return;
    }
    if (!w.note.op)
        tell(ct_memory_budget_trouble());
    if (push_chunk())
        return;
    const int info = put_info(how);
    if (!take_all()) {
        ct_info_put_changed();
        ct_open_chunk_commit(ct_open_chunk_get()->taken_ns);
        if (how == CT_DRAIN_FLUSH || how == CT_DRAIN_FINAL)
            w.flush = 1;
        int rc = is_due(how, info) ? close_chunk(how == CT_DRAIN_FINAL ? CT_CHUNK_LAST : 0) : 0;
        if (!rc && w.flush)
            rc = flush_shelf(how != CT_DRAIN_FINAL);
        // (An event stays in its ring while another thread may yet publish an older one.)
        if (!rc && how == CT_DRAIN_FINAL && ct_rings_are_empty())
            ct_journal_done();
    }
    atomic_store_explicit(&due_ns, ct_checkpoint_writer_is_busy() ? 1 : w.due_ns, memory_order_relaxed);
    tell_counters();
    say_refusal();
}

static void tell_trouble(const char *trouble) {
    char text[300];
    ct_print(text, sizeof text,
             "no journal beside the trace: %s; a killed process loses its last %u ms%s", trouble,
             (unsigned)(UNKEPT_NS / 1000000),
             ct_memory_budget_trouble() ? ", and CUTRACE_MEMORY is not in force" : "");
    tell(text);
}

static int make_trace(void) {
    if (buffers())
        return -ENOMEM;
    int rc = ct_output_open();
    if (rc)
        return rc;
    if (getrandom(&w.trace_id, sizeof w.trace_id, GRND_NONBLOCK) != sizeof w.trace_id)
        w.trace_id = (ct_clock() ^ (uint64_t)getpid() << 40) * UINT64_C(0x9E3779B97F4A7C15);
    if ((rc = ct_journal_open(ct_output_path(), w.trace_id, ct_name_text)))
        return rc;
    if ((rc = ct_live_state_init()))
        return rc;
    return begin_chunk(0, 0);
}

int ct_drain_open_trace(void) {
    if (w.file != CLOSED)
        return w.file == OPEN ? 0 : -EIO;
    const int rc = make_trace();
    w.file = rc ? FAILED : OPEN;
    if (rc)
        return rc;
    if (ct_journal_trouble())
        tell_trouble(ct_journal_trouble());
    ct_process_info_publish();
    if (w.parent_id)
        ct_info_set("process.parent_trace", "%016lx", w.parent_id);
    ct_drain_run(CT_DRAIN_INFO);
    return 0;
}

// ---- fork -----------------------------------------------------------------------------------

void ct_drain_reinit_child(void) {
    const uint64_t parent = w.file == OPEN ? w.trace_id : w.parent_id;
    // The buffers are left to the parent's pages: what was being done with them is unknown.
    memset(&w, 0, sizeof w);
    w.parent_id = parent;
    atomic_store(&lock, 0);
    ct_output_forked();
    ct_ring_merge_reinit_child();
    ct_live_state_reinit_child();
    ct_open_chunk_reinit_child();
    ct_checkpoint_writer_reinit_child();
    ct_journal_forked();
    ct_dictionary_reinit_child();
    ct_symbolizer_reinit_child();
    ct_info_reinit_child();
    ct_nvml_reinit_child();
}

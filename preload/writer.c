// SPDX-License-Identifier: Apache-2.0
// From the rings into the file: events of all threads in the order of time, cut into chunks.
#include "writer.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/codec.h>
#include <cutrace/live.h>

#include "chunk.h"
#include "devices.h"
#include "dictionary.h"
#include "info.h"
#include "memory.h"
#include "names.h"
#include "options.h"
#include "output.h"
#include "process.h"
#include "recorder.h"
#include "refusal.h"
#include "ring.h"
#include "stacks.h"
#include "text.h"

#define BATCH 8192u                      // events that are taken out at a time
#define BODY_BYTES (16u << 20)           // INFO, definitions (2 MiB and one event more) and columns
#define GENERATION_BYTES (16u << 20)     // bodies between two generations of dictionaries
#define INFO_NS UINT64_C(10000000000)    // INFO that has changed is written this often
#define REFUSAL_NS UINT64_C(60000000000) // and refusals are said this often
#define SYMBOL_TABLES_BYTES (64u << 20)
#define RINGS_MAX 65536u
#define QUICK_SYMBOLS 32768u // entries of a symbol table that are read within a millisecond or two
#define UNKNOWN UINT64_MAX

static _Atomic int lock;
static _Atomic int resolving;

static struct {
    enum { CLOSED, OPEN, FAILED } file;
    uint64_t trace_id, parent_id;
    uint64_t seq, dict_seq, next_event, generation_bytes;
    uint64_t lost, info_ns;
    int new_generation; // before the next chunk

    struct ct_event *batch;
    size_t batch_n;
    struct source *sources; // a heap by time
    size_t sources_n;

    uint8_t *body, *chunk;
    _Atomic size_t chunk_bytes; // of a chunk that is built and not in the file yet
    struct ct_chunk head, last_head;
    uint64_t last_at; // offset of the last chunk, if it is marked as the end
    int ended;

    struct ct_live live;
    uint64_t beyond[CT_MAX_DEVICES]; // what NVML saw this process use beyond what was tracked then
    uint64_t beyond_known;           // devices of which that is known, one bit each
    struct ct_event refused;         // the first one since the last line on stderr
    uint64_t refused_said_ns;
} w;

struct source {
    uint64_t t_ns; // of the next event
    struct ct_ring *ring;
    uint64_t at, head;
};

// ---- the lock -------------------------------------------------------------------------------

int ct_drain_try(struct ct_shield *shield) {
    int open = 0;
    ct_shield_up(shield);
    if (atomic_compare_exchange_strong_explicit(&lock, &open, 1, memory_order_acquire,
                                                memory_order_relaxed))
        return 0;
    ct_shield_down(shield);
    return -EBUSY;
}

int ct_drain_wait(struct ct_shield *shield, unsigned ms) {
    const struct timespec pause = {0, 200000};
    for (unsigned i = 0; i <= ms * 5; i++) {
        if (!ct_drain_try(shield))
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_drain_leave(struct ct_shield *shield) {
    atomic_store_explicit(&lock, 0, memory_order_release);
    ct_shield_down(shield);
}

// ---- chunks ---------------------------------------------------------------------------------

static void *live_memory(void *user, void *old, size_t old_bytes, size_t bytes) {
    (void)user;
    if (bytes)
        return ct_pages(bytes);
    ct_pages_free(old, old_bytes);
    return NULL;
}

static int buffers(void) {
    if (!w.batch)
        w.batch = ct_pages((BATCH + 1) * sizeof *w.batch);
    if (!w.sources)
        w.sources = ct_pages(RINGS_MAX * sizeof *w.sources);
    if (!w.body)
        w.body = ct_pages(BODY_BYTES);
    if (!w.chunk)
        w.chunk = ct_pages(ct_chunk_bound(BODY_BYTES));
    return w.batch && w.sources && w.body && w.chunk ? 0 : -ENOMEM;
}

int ct_drain_is_stuck(void) {
    return w.chunk_bytes != 0;
}

// A chunk that was marked as the end is not the end any more.
static int unend(void) {
    uint8_t prefix[CT_PREFIX_BYTES];
    if (!w.ended)
        return 0;
    w.last_head.flags &= ~CT_CHUNK_LAST;
    ct_chunk_prefix(&w.last_head, prefix);
    const int rc = ct_output_patch(w.last_at, prefix, sizeof prefix);
    w.ended = rc != 0;
    return rc;
}

// Puts the chunk that is built into the file. One that the disk does not take is kept for the next
// time.
static int push_chunk(void) {
    int rc = w.chunk_bytes ? unend() : 0;
    const uint64_t at = ct_output_bytes();
    if (!rc && w.chunk_bytes && !(rc = ct_output_append(w.chunk, w.chunk_bytes))) {
        w.chunk_bytes = 0;
        w.last_head = w.head;
        w.last_at = at;
        w.ended = (w.head.flags & CT_CHUNK_LAST) != 0;
    }
    return rc;
}

static void generation(void) {
    if (!w.new_generation && w.generation_bytes < GENERATION_BYTES && !ct_dictionary_is_full())
        return;
    if (ct_dictionary_pending())
        return; // definitions of the old one are still to be written
    ct_dictionary_begin();
    w.new_generation = 0;
    w.generation_bytes = 0;
    w.dict_seq = w.seq;
}

static void map_id(struct ct_event *e, uint64_t bit, uint32_t *field, uint32_t (*map)(uint32_t)) {
    if (!(e->present & bit))
        return;
    *field = map(*field);
    if (!*field)
        e->present &= ~bit;
}

static void map_ids(struct ct_event *e) {
    map_id(e, CT_BIT(thread), &e->thread, ct_dictionary_thread);
    map_id(e, CT_BIT(api), &e->api, ct_dictionary_name);
    map_id(e, CT_BIT(text), &e->text, ct_dictionary_name);
    map_id(e, CT_BIT(stack), &e->stack, ct_dictionary_stack);
}

// Writes INFO, definitions and events[0..n) as one chunk. Returns 0 even when the disk does not
// take it: the chunk then waits, and nothing else may be built until it is gone.
static int write_chunk(struct ct_event *events, size_t n, unsigned flags) {
    struct ct_out o = {w.body, w.body + BODY_BYTES, 0};
    memset(&w.head, 0, sizeof w.head);
    for (size_t i = 0; i < n; i++)
        w.head.events += events[i].op != CT_OP_AMEND;
    if (w.head.events != n)
        flags |= CT_CHUNK_AMENDS;
    ct_info_write(&o);
    ct_dictionary_write(&o);
    if (n)
        ct_put_events(&o, events, n);
    const size_t raw = (size_t)(o.at - w.body);
    w.head.flags = flags;
    w.head.seq = w.seq;
    w.head.dict_seq = w.dict_seq;
    w.head.first_event = w.next_event;
    w.head.t_first_ns = n ? events[0].t_ns : 0;
    w.head.t_last_ns = n ? events[n - 1].t_ns : 0;
    w.head.trace_id = w.trace_id;
    w.chunk_bytes =
        o.bad ? 0 : ct_chunk_build(&w.head, w.body, raw, (int)CT_NUMBER(COMPRESS), w.chunk);
    if (!w.chunk_bytes) {
        // No memory for the compressor, or a body beyond all bounds: the definitions are gone as
        // well.
        w.lost += n;
        w.new_generation = 1;
        return -ENOMEM;
    }
    w.seq++;
    w.next_event += w.head.events;
    w.generation_bytes += raw;
    return push_chunk();
}

// ---- refusals -------------------------------------------------------------------------------

static void note_refusal(const struct ct_event *e) {
    if (ct_is_refusal(e) && !w.refused.op &&
        (!w.refused_said_ns || e->t_ns - w.refused_said_ns > REFUSAL_NS))
        w.refused = *e;
}

static int take_modules(void) {
    if (!ct_modules_merge())
        return 0;
    ct_dictionary_forget_frames();
    w.new_generation = 1;
    return 1;
}

// The line is said at once, in the thread whose request was refused: so only what is known already,
// or is found in a moment. The writer thread names the whole stack afterwards.
static void name_caller(uint32_t stack) {
    int free_now = 0;
    if (!atomic_compare_exchange_strong(&resolving, &free_now, 1))
        return;
    if (ct_dictionary_lost_frames() && ct_modules_look() > 0)
        (void)take_modules();
    ct_dictionary_resolve(0);
    struct ct_module *m = ct_dictionary_caller_wants(stack);
    if (m && *m->path == '/')
        m->symbols = ct_symbols_load(m->path, m->build_id, m->build_id_bytes, QUICK_SYMBOLS);
    if (m && m->symbols)
        ct_dictionary_resolve(0);
    atomic_store(&resolving, 0);
}

// NVML is asked once a second: what it saw beyond the tracked bytes (contexts, code) stays, the tracked bytes
// have moved on.
static uint64_t process_bytes(int device) {
    if (device < 0 || device >= CT_MAX_DEVICES || !(w.beyond_known >> device & 1))
        return UNKNOWN;
    return ct_live_tracked(ct_live_device(&w.live, device)) + w.beyond[device];
}

static void note_process_bytes(const struct ct_event *e) {
    if (e->op != CT_OP_MEMORY_SAMPLE || !CT_HAS(e, process_bytes) || !CT_HAS(e, device) ||
        e->device < 0 || e->device >= CT_MAX_DEVICES)
        return;
    const uint64_t tracked = ct_live_tracked(ct_live_device(&w.live, e->device));
    w.beyond[e->device] = e->process_bytes > tracked ? e->process_bytes - tracked : 0;
    w.beyond_known |= UINT64_C(1) << e->device;
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
            name_caller(e->stack);
            ct_dictionary_caller(e->stack, caller, sizeof caller);
        }
        const struct ct_refusal r = {
            .device = device,
            .bytes = CT_HAS(e, bytes) ? e->bytes : UNKNOWN,
            .free = CT_HAS(e, free_bytes) ? e->free_bytes : UNKNOWN,
            .total = CT_HAS(e, total_bytes) ? e->total_bytes : ct_device_total(device),
            .tracked = device >= 0 ? ct_live_tracked(ct_live_device(&w.live, device)) : UNKNOWN,
            .process = process_bytes(device),
            .api = CT_HAS(e, api) ? ct_name_text(e->api) : NULL,
            .caller = caller,
            .path = ct_output_path(),
        };
        ct_refusal_line(&r, line, sizeof line);
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
// nor the AMEND.
static void apply_amends(void) {
    size_t n = 0;
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
    for (size_t i = 0; i < w.batch_n; i++)
        if (w.batch[i].op)
            w.batch[n++] = w.batch[i];
    w.batch_n = n;
}

// Calls that give back do not say on which device, to cost no more than a clock read: what they give back
// knows.
static void name_device(struct ct_event *e) {
    const struct ct_object *given = CT_HAS(e, device) ? NULL : ct_live_given(&w.live, e);
    if (given && given->device != CT_NO_DEVICE)
        CT_SET(e, device, given->device);
}

// What is alive, for the refusal line: number 0 for all, it is not asked for.
static void apply_live(void) {
    for (size_t i = 0; i < w.batch_n; i++) {
        note_refusal(&w.batch[i]);
        name_device(&w.batch[i]);
        ct_live_apply(&w.live, &w.batch[i], 0);
        note_process_bytes(&w.batch[i]);
    }
}

// Writes the batch, in several chunks if it brings more definitions than fit into one.
static int write_batch(unsigned flags) {
    int rc = 0;
    apply_amends();
    apply_live();
    size_t from = 0;
    do {
        size_t to = from;
        generation();
        for (; to < w.batch_n && ct_dictionary_pending() < CT_DICTIONARY_FULL; to++)
            map_ids(&w.batch[to]);
        rc = write_chunk(w.batch + from, to - from, to == w.batch_n ? flags : 0);
        from = to;
    } while (!rc && from < w.batch_n);
    if (rc && from < w.batch_n)
        w.lost += w.batch_n - from;
    w.batch_n = 0;
    return rc;
}

// ---- merging --------------------------------------------------------------------------------

static void heap_down(size_t at) {
    const struct source moved = w.sources[at];
    for (size_t child; (child = 2 * at + 1) < w.sources_n; at = child) {
        if (child + 1 < w.sources_n && w.sources[child + 1].t_ns < w.sources[child].t_ns)
            child++;
        if (moved.t_ns <= w.sources[child].t_ns)
            break;
        w.sources[at] = w.sources[child];
    }
    w.sources[at] = moved;
}

// The time before which every event is published. See the head of ring.c.
static uint64_t safe_limit(void) {
    const uint64_t now = ct_clock();
    uint64_t limit = now;
    atomic_store(&ct_watermark, now);
    for (struct ct_ring *r = ct_rings(); r; r = r->next) {
        const uint64_t bound = ct_ring_bound(r);
        limit = bound < limit ? bound : limit;
    }
    return limit ? limit - 1 : 0; // the last nanosecond is for LOST records
}

static void open_sources(uint64_t limit) {
    w.sources_n = 0;
    for (struct ct_ring *r = ct_rings(); r && w.sources_n < RINGS_MAX; r = r->next) {
        const uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
        const uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
        if (head == tail || r->events[tail % CT_RING_EVENTS].t_ns >= limit)
            continue;
        w.sources[w.sources_n++] =
            (struct source){r->events[tail % CT_RING_EVENTS].t_ns, r, tail, head};
    }
    for (size_t i = w.sources_n / 2; i-- > 0;)
        heap_down(i);
}

// The next event in time; the ring's place is free as soon as the event is copied.
static void take_one(uint64_t limit) {
    struct source *s = &w.sources[0];
    w.batch[w.batch_n++] = s->ring->events[s->at % CT_RING_EVENTS];
    if (w.batch[w.batch_n - 1].op == CT_OP_LOST)
        w.lost += w.batch[w.batch_n - 1].count;
    atomic_store_explicit(&s->ring->tail, ++s->at, memory_order_release);
    if (s->at == s->head || s->ring->events[s->at % CT_RING_EVENTS].t_ns >= limit)
        w.sources[0] = w.sources[--w.sources_n];
    else
        s->t_ns = s->ring->events[s->at % CT_RING_EVENTS].t_ns;
    if (w.sources_n)
        heap_down(0);
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
    w.lost += count;
    w.batch[w.batch_n++] = e;
}

// Losses of threads that have not recorded anything since; otherwise they tell it themselves, in
// its place.
static int put_losses(uint64_t limit) {
    int rc = 0;
    for (struct ct_ring *r = ct_rings(); r && !rc; r = r->next) {
        if (!atomic_load_explicit(&r->lost, memory_order_relaxed) ||
            atomic_load_explicit(&r->head, memory_order_acquire) != atomic_load(&r->tail))
            continue;
        put_lost(atomic_exchange(&r->lost, 0), atomic_load(&r->thread), limit);
        if (w.batch_n >= BATCH)
            rc = write_batch(0);
    }
    if (!rc)
        put_lost(atomic_exchange(&ct_ringless_lost, 0), 0, limit);
    return rc;
}

static int put_info(enum ct_drain_how how) {
    const uint64_t now = ct_clock();
    if (w.ended) // told at the end; what comes after it comes event by event
        return 0;
    if (how == CT_DRAIN_EVENTS && now - w.info_ns < INFO_NS)
        return 0;
    w.info_ns = now;
    ct_info_refresh();
    ct_info("recorder.lost_events", "%lu", w.lost);
    ct_info("recorder.stacks_full", "%lu", atomic_load(&ct_stacks_full));
    ct_info("recorder.bytes_written", "%lu", ct_output_bytes());
    if (how == CT_DRAIN_FINAL)
        ct_info("recorder.end", "exit");
    return how != CT_DRAIN_EVENTS;
}

// Without a file, events are taken out all the same, and counted.
static void discard(uint64_t limit) {
    for (open_sources(limit); w.sources_n;) {
        w.batch_n = 0;
        take_one(limit);
        w.lost++;
    }
    w.batch_n = 0;
}

void ct_drain(enum ct_drain_how how) {
    // Behind the end comes only what the exiting thread itself adds; the others may be stopped anywhere.
    if (w.ended && how != CT_DRAIN_FINAL)
        return;
    if (w.file == CLOSED && ct_drain_open())
        w.file = FAILED;
    if (buffers())
        return;
    if (w.file == FAILED) {
        discard(safe_limit());
        return;
    }
    if (push_chunk())
        return;
    const int info = put_info(how);
    const uint64_t limit = safe_limit();
    int rc = 0;
    for (open_sources(limit); !rc && w.sources_n;) {
        take_one(limit);
        if (w.batch_n == BATCH)
            rc = write_batch(0);
    }
    if (!rc)
        rc = put_losses(limit);
    if (!rc && (w.batch_n || info || ct_dictionary_pending()))
        (void)write_batch(how == CT_DRAIN_FINAL ? CT_CHUNK_LAST : 0);
    say_refusal();
}

int ct_drain_open(void) {
    if (w.file != CLOSED)
        return w.file == OPEN ? 0 : -EIO;
    if (buffers()) {
        w.file = FAILED;
        return -ENOMEM;
    }
    const int rc = ct_output_open();
    w.file = rc ? FAILED : OPEN;
    if (rc)
        return rc;
    if (getrandom(&w.trace_id, sizeof w.trace_id, GRND_NONBLOCK) != sizeof w.trace_id)
        w.trace_id = (ct_clock() ^ (uint64_t)getpid() << 40) * UINT64_C(0x9E3779B97F4A7C15);
    ct_live_init(&w.live, live_memory, NULL);
    ct_process_info();
    if (w.parent_id)
        ct_info("process.parent_trace", "%016lx", w.parent_id);
    ct_drain(CT_DRAIN_INFO);
    return 0;
}

// ---- symbols --------------------------------------------------------------------------------

static int resolver_enter(unsigned ms) {
    const struct timespec pause = {0, 1000000};
    for (unsigned i = 0; i <= ms; i++) {
        int free_now = 0;
        if (atomic_compare_exchange_strong(&resolving, &free_now, 1))
            return 0;
        if (i < ms)
            nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

// The loader's list, if frames lie outside of what is known of it.
static int refresh_modules(void) {
    struct ct_shield shield;
    const int changed = ct_modules_look();
    if (changed <= 0)
        return changed;
    if (ct_drain_wait(&shield, 1000))
        return -EBUSY;
    (void)take_modules();
    ct_drain_leave(&shield);
    return 1;
}

// Keeps the memory of symbol tables bounded: the others go, they can be read again.
static void evict_others(const struct ct_module *keep) {
    size_t total = 0;
    struct ct_module *m;
    for (size_t i = 0; (m = ct_module_at(i)); i++)
        total += m->symbols ? ct_symbols_bytes(m->symbols) : 0;
    for (size_t i = 0; total > SYMBOL_TABLES_BYTES && (m = ct_module_at(i)); i++) {
        if (m == keep || !m->symbols)
            continue;
        ct_symbols_free(m->symbols);
        m->symbols = NULL;
    }
}

// Loads the next table that is wanted and uses it. Returns 0 when there is none left.
static int load_one(size_t *at) {
    struct ct_shield shield;
    if (ct_drain_wait(&shield, 1000))
        return 0;
    struct ct_module *m = ct_dictionary_wants(at);
    ct_drain_leave(&shield);
    if (!m)
        return 0;
    struct ct_symbols *symbols =
        *m->path == '/' ? ct_symbols_load(m->path, m->build_id, m->build_id_bytes, CT_SYMBOLS_ANY)
                        : NULL;
    if (ct_drain_wait(&shield, 1000)) {
        ct_symbols_free(symbols);
        return 0;
    }
    m->symbols = symbols;
    m->no_symbols = !symbols;
    ct_dictionary_resolve(0);
    evict_others(m);
    ct_drain_leave(&shield);
    return 1;
}

int ct_resolve_symbols(unsigned ms) {
    struct ct_shield shield;
    size_t at = 0;
    if (resolver_enter(ms))
        return -EBUSY;
    if (ct_drain_wait(&shield, 1000) == 0) {
        const size_t unresolved = ct_dictionary_unresolved();
        const int lost = ct_dictionary_lost_frames();
        ct_drain_leave(&shield);
        const int looked = lost ? refresh_modules() : 1;
        if (unresolved && looked > 0 && ct_drain_wait(&shield, 1000) == 0) {
            ct_dictionary_resolve(0); // finds the modules
            ct_drain_leave(&shield);
        }
        while (unresolved && load_one(&at))
            ;
        if (unresolved && looked >= 0 && ct_drain_wait(&shield, 1000) == 0) {
            ct_dictionary_resolve(1);
            ct_drain(CT_DRAIN_EVENTS);
            ct_drain_leave(&shield);
        }
    }
    atomic_store(&resolving, 0);
    return 0;
}

// ---- fork -----------------------------------------------------------------------------------

void ct_drain_forked(void) {
    const uint64_t parent = w.file == OPEN ? w.trace_id : w.parent_id;
    // The buffers are left to the parent's pages: what was being done with them is unknown.
    memset(&w, 0, sizeof w);
    w.parent_id = parent;
    atomic_store(&lock, 0);
    atomic_store(&resolving, 0);
    ct_output_forked();
    ct_dictionary_forked();
    ct_modules_forked();
    ct_info_forked();
    ct_devices_forked();
}

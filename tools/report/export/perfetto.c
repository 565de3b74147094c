// SPDX-License-Identifier: Apache-2.0
// A trace for Perfetto: TrackEvent packets of one sequence, with interned names and call stacks.
// Counters of each device, a slice for each call that was timed (else an instant), the lifetimes of
// the largest allocations, failed requests, and the phases of the run. The messages are those of
// perfetto/trace/perfetto_trace.proto.
#include <inttypes.h>

#include "analyze/phase_follow.h"
#include "export/frame_table.h"
#include "export/lifetimes.h"
#include "export/protobuf.h"
#include "export/tables.h"

// Field numbers, named as in the .proto files.
enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK_DESCRIPTOR = 60,
    PACKET_FIRST_ON_SEQUENCE = 87,
    DEFAULTS_CLOCK_ID = 58,
    SNAPSHOT_CLOCKS = 1,
    SNAPSHOT_PRIMARY_CLOCK = 2,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    PROCESS_LABEL = 8,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    COUNTER_UNIT = 3,
    EVENT_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    EVENT_CALLSTACK_IID = 56,
    ANNOTATION_NAME = 10,
    ANNOTATION_UINT = 3,
    ANNOTATION_INT = 4,
    ANNOTATION_STRING = 6,
    ANNOTATION_POINTER = 7,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_FUNCTIONS = 5,
    INTERNED_FRAMES = 6,
    INTERNED_CALLSTACKS = 7,
    INTERNED_SOURCES = 18,
    STRING_IID = 1, // of InternedString and EventName
    STRING_TEXT = 2,
    FRAME_IID = 1,
    FRAME_FUNCTION = 2,
    FRAME_PC = 4,
    FRAME_SOURCE = 5,
    FRAME_LINE = 6,
    CALLSTACK_IID = 1,
    CALLSTACK_FRAME = 2,
};
enum { REALTIME = 1, MONOTONIC = 3 }; // of BuiltinClock
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4, SIZE_BYTES = 3 };
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };
enum { SEQUENCE = 1 };

// Numbers of tracks. Those of counters and threads follow each other.
enum { OF_PROCESS = 1, OF_PHASES = 2, OF_FAILURES = 3, OF_COUNTERS = 1000, OF_THREADS = 100000 };
#define OF_RANGES (UINT64_C(1) << 40)    // after all numbers of threads
#define OF_STARTED (UINT64_C(1) << 44)   // ranges of the process
#define OF_LIFETIMES (UINT64_C(1) << 48) // those of a list follow each other
enum lifetime_kind { OF_DRIVER, OF_PYTORCH, LIFETIME_KINDS };
enum { STARTED = 64 }; // ranges of the process that are open at a time; of further ones, instants
enum counter { LIVE, USED, TOTAL, ALLOCATED, RESERVED, COUNTERS };

struct perfetto {
    struct ct_export *x;
    FILE *out;
    int began; // the first packet was written
    struct ct_message packet, interned, event, part, other;
    struct ct_frame_table table;
    size_t frames_written;
    struct ct_names names;         // of events: their iids
    struct ct_map stacks, threads; // stacks that are interned; tid -> the end of its last slice
    struct ct_map ranges;          // tid -> how many of its ranges are open
    struct {
        int is_open, has_track;
        uint64_t handle;
    } started[STARTED]; // each in a track of its own, because they need not nest
    uint64_t pid, packets;
    uint64_t counted[CT_DEVICES][COUNTERS]; // last value + 1
    const char *phase;                      // that has begun, or NULL
    struct ct_lifetimes lifetimes[CT_DEVICES][LIFETIME_KINDS];
};

// ---- packets ------------------------------------------------------------------------------------

static void put_text_number(struct ct_message *m, unsigned field, uint64_t iid, const char *text,
                            struct ct_message *part) {
    ct_message_clear(part);
    ct_message_number(part, STRING_IID, iid);
    ct_message_text(part, STRING_TEXT, text);
    ct_message_put(m, field, part);
}

// Ends a packet that has everything but what all have.
static void end_packet(struct perfetto *p) {
    ct_message_number(&p->packet, PACKET_SEQUENCE_ID, SEQUENCE);
    ct_message_number(&p->packet, PACKET_SEQUENCE_FLAGS,
                      p->began ? NEEDS_STATE : STATE_CLEARED | NEEDS_STATE);
    if (!p->began)
        ct_message_number(&p->packet, PACKET_FIRST_ON_SEQUENCE, 1);
    p->began = 1;
    ct_message_write(p->out, TRACE_PACKET, &p->packet);
    ct_message_clear(&p->packet);
    p->packets++;
}

static void begin_event(struct perfetto *p, unsigned type, uint64_t track) {
    ct_message_clear(&p->event);
    ct_message_clear(&p->interned);
    ct_message_number(&p->event, EVENT_TYPE, type);
    ct_message_number(&p->event, EVENT_TRACK, track);
}

static void end_event(struct perfetto *p, uint64_t t_ns) {
    ct_message_number(&p->packet, PACKET_TIMESTAMP, t_ns);
    if (p->interned.size)
        ct_message_put(&p->packet, PACKET_INTERNED_DATA, &p->interned);
    ct_message_put(&p->packet, PACKET_TRACK_EVENT, &p->event);
    end_packet(p);
}

// The clocks of the machine, and that times are of the monotonic one.
static void write_clocks(struct perfetto *p, uint64_t t_ns) {
    uint64_t times[][2] = {{MONOTONIC, t_ns}, {REALTIME, 0}};
    const int is_known = ct_clocks_utc(&p->x->clocks, t_ns, &times[1][1]);
    struct ct_message clock = {0};
    ct_message_clear(&p->part);
    for (int i = 0; i < (is_known ? 2 : 1); i++) {
        ct_message_clear(&clock);
        ct_message_number(&clock, CLOCK_ID, times[i][0]);
        ct_message_number(&clock, CLOCK_TIMESTAMP, times[i][1]);
        ct_message_put(&p->part, SNAPSHOT_CLOCKS, &clock);
    }
    ct_message_free(&clock);
    ct_message_number(&p->part, SNAPSHOT_PRIMARY_CLOCK, MONOTONIC);
    ct_message_put(&p->packet, PACKET_CLOCK_SNAPSHOT, &p->part);
    ct_message_clear(&p->part);
    ct_message_number(&p->part, DEFAULTS_CLOCK_ID, MONOTONIC);
    ct_message_put(&p->packet, PACKET_DEFAULTS, &p->part);
    end_packet(p);
}

// ---- tracks -------------------------------------------------------------------------------------

// Begins the descriptor of a track in `part`.
static void begin_track(struct perfetto *p, uint64_t uuid, const char *name, uint64_t parent) {
    ct_message_clear(&p->part);
    ct_message_number(&p->part, TRACK_UUID, uuid);
    if (parent)
        ct_message_number(&p->part, TRACK_PARENT, parent);
    if (name)
        ct_message_text(&p->part, TRACK_NAME, name);
}

static void end_track(struct perfetto *p) {
    ct_message_put(&p->packet, PACKET_TRACK_DESCRIPTOR, &p->part);
    end_packet(p);
}

static void write_process(struct perfetto *p) {
    const struct ct_definitions *n = &p->x->trace->definitions;
    const struct ct_string *exe = ct_definitions_info(n, "process.exe");
    char name[CT_EXPORT_NAME], driver[CT_EXPORT_NAME];
    ct_export_text(name, exe ? exe->at : "", exe ? exe->length : 0);
    if (!ct_definitions_info_number(n, "process.pid", &p->pid) || p->pid > INT32_MAX)
        p->pid = 1;
    ct_message_clear(&p->other);
    ct_message_number(&p->other, PROCESS_PID, p->pid);
    ct_message_text(&p->other, PROCESS_NAME, *name ? name : "process");
    if (ct_export_driver(p->x, driver))
        ct_message_text(&p->other, PROCESS_LABEL, driver);
    begin_track(p, OF_PROCESS, NULL, 0);
    ct_message_put(&p->part, TRACK_PROCESS, &p->other);
    end_track(p);
    begin_track(p, OF_PHASES, "phases", OF_PROCESS);
    end_track(p);
    begin_track(p, OF_FAILURES, "out of memory", OF_PROCESS);
    end_track(p);
}

// The track of a thread, whose end of its last slice `last` is.
static uint64_t *get_thread(struct perfetto *p, uint64_t tid, const char *name) {
    const size_t before = p->threads.count;
    uint64_t *last = ct_map_add(&p->threads, tid);
    if (p->threads.count == before)
        return last;
    ct_message_clear(&p->other);
    ct_message_number(&p->other, THREAD_PID, p->pid);
    ct_message_number(&p->other, THREAD_TID, tid & INT64_MAX);
    if (name)
        ct_message_text(&p->other, THREAD_NAME, name);
    begin_track(p, OF_THREADS + tid, NULL, OF_PROCESS);
    ct_message_put(&p->part, TRACK_THREAD, &p->other);
    end_track(p);
    return last;
}

// How many ranges of the thread are open, in its track of ranges.
static uint64_t *get_ranges(struct perfetto *p, uint64_t tid) {
    const size_t before = p->ranges.count;
    uint64_t *open = ct_map_add(&p->ranges, tid);
    if (p->ranges.count == before)
        return open;
    begin_track(p, OF_RANGES + tid, "ranges", OF_THREADS + tid);
    end_track(p);
    return open;
}

// ---- counters -----------------------------------------------------------------------------------

static void begin_counter(struct perfetto *p, int device, enum counter which) {
    static const char *const titles[] = {"live (this process)", "used (device)", "size (device)",
                                         "PyTorch allocated", "PyTorch reserved"};
    char gpu[40], name[80];
    ct_export_device_title(device, gpu, sizeof gpu);
    (void)snprintf(name, sizeof name, "%s %s", gpu, titles[which]);
    ct_message_clear(&p->other);
    ct_message_number(&p->other, COUNTER_UNIT, SIZE_BYTES);
    begin_track(p, OF_COUNTERS + (uint64_t)device * COUNTERS + which, name, OF_PROCESS);
    ct_message_put(&p->part, TRACK_COUNTER, &p->other);
    end_track(p);
}

static void count(struct perfetto *p, int device, enum counter which, const struct ct_cell *cell,
                  uint64_t t_ns) {
    uint64_t *last = &p->counted[device][which];
    if (!cell->known || *last == cell->number + 1)
        return;
    if (!*last)
        begin_counter(p, device, which);
    *last = cell->number + 1;
    begin_event(p, COUNTER, OF_COUNTERS + (uint64_t)device * COUNTERS + which);
    ct_message_number(&p->event, EVENT_COUNTER,
                      cell->number <= INT64_MAX ? cell->number : INT64_MAX);
    end_event(p, t_ns);
}

static void write_memory(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *device = CT_CELL(row, memory, device);
    const int d = device->known ? (int)device->number : CT_MAX_DEVICES;
    const uint64_t t_ns = CT_CELL(row, memory, t_ns)->number;
    count(p, d, LIVE, CT_CELL(row, memory, live_bytes), t_ns);
    count(p, d, USED, CT_CELL(row, memory, used_bytes), t_ns);
    count(p, d, TOTAL, CT_CELL(row, memory, total_bytes), t_ns);
    count(p, d, ALLOCATED, CT_CELL(row, memory, torch_allocated_bytes), t_ns);
    count(p, d, RESERVED, CT_CELL(row, memory, torch_reserved_bytes), t_ns);
}

// ---- call stacks --------------------------------------------------------------------------------

static void intern_frames(struct perfetto *p) {
    for (; p->frames_written < p->table.count; p->frames_written++) {
        const struct ct_export_frame *f = &p->table.list[p->frames_written];
        const uint64_t iid = p->frames_written + 1;
        put_text_number(&p->interned, INTERNED_FUNCTIONS, iid, f->name, &p->part);
        if (f->file)
            put_text_number(&p->interned, INTERNED_SOURCES, iid, f->file, &p->part);
        ct_message_clear(&p->part);
        ct_message_number(&p->part, FRAME_IID, iid);
        ct_message_number(&p->part, FRAME_FUNCTION, iid);
        ct_message_number(&p->part, FRAME_PC, f->address);
        if (f->file)
            ct_message_number(&p->part, FRAME_SOURCE, iid);
        if (f->line && f->line <= UINT32_MAX)
            ct_message_number(&p->part, FRAME_LINE, f->line);
        ct_message_put(&p->interned, INTERNED_FRAMES, &p->part);
    }
}

// Frames are the outermost first.
static void put_stack(struct perfetto *p, uint32_t stack) {
    const size_t before = p->stacks.count;
    (void)ct_map_add(&p->stacks, stack);
    if (p->stacks.count != before) {
        ct_frame_table_read(&p->table, CT_HOLDING_ALLOCATION, stack);
        intern_frames(p);
        ct_message_clear(&p->part);
        ct_message_number(&p->part, CALLSTACK_IID, stack);
        for (size_t i = p->table.depth; i-- > 0;)
            ct_message_number(&p->part, CALLSTACK_FRAME, p->table.stack[i] + UINT64_C(1));
        ct_message_put(&p->interned, INTERNED_CALLSTACKS, &p->part);
    }
    ct_message_number(&p->event, EVENT_CALLSTACK_IID, stack);
}

// ---- calls --------------------------------------------------------------------------------------

static void put_name(struct perfetto *p, const char *name) {
    const size_t before = p->names.count;
    const uint32_t iid = ct_names_add(&p->names, name);
    if (p->names.count != before)
        put_text_number(&p->interned, INTERNED_EVENT_NAMES, iid, name, &p->part);
    ct_message_number(&p->event, EVENT_NAME_IID, iid);
}

static void annotate(struct perfetto *p, const char *name, const struct ct_cell *cell,
                     unsigned field) {
    if (!cell->known)
        return;
    ct_message_clear(&p->part);
    ct_message_text(&p->part, ANNOTATION_NAME, name);
    if (field == ANNOTATION_STRING)
        ct_message_text(&p->part, field, cell->text);
    else
        ct_message_number(&p->part, field, cell->is_negative ? 0 - cell->number : cell->number);
    ct_message_put(&p->event, EVENT_ANNOTATIONS, &p->part);
}

static void put_details(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *stack = CT_CELL(row, events, stack_id);
    annotate(p, "event", CT_CELL(row, events, event), ANNOTATION_UINT);
    annotate(p, "op", CT_CELL(row, events, op), ANNOTATION_STRING);
    annotate(p, "domain", CT_CELL(row, events, domain), ANNOTATION_STRING);
    annotate(p, "device", CT_CELL(row, events, device), ANNOTATION_INT);
    annotate(p, "bytes", CT_CELL(row, events, bytes), ANNOTATION_UINT);
    annotate(p, "address", CT_CELL(row, events, address), ANNOTATION_POINTER);
    annotate(p, "handle", CT_CELL(row, events, handle), ANNOTATION_POINTER);
    annotate(p, "result", CT_CELL(row, events, result), ANNOTATION_INT);
    annotate(p, "free_bytes", CT_CELL(row, events, free_bytes), ANNOTATION_UINT);
    if (stack->known)
        put_stack(p, (uint32_t)stack->number);
}

// A call that ends something is recorded when it begins, every other call when it has ended.
static int is_recorded_at_begin(const char *op) {
    static const char *const ops[] = {"free",       "unreserve",    "release",   "unmap",
                                      "unregister", "pool-destroy", "ipc-close", "context-destroy",
                                      "pool-trim",  "module-unload"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i]) == 0)
            return 1;
    return 0;
}

// Slices of a thread do not overlap: what rounding makes overlap is cut.
static void write_call(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *tid = CT_CELL(row, events, tid), *op = CT_CELL(row, events, op),
                         *lasted = CT_CELL(row, events, duration_ns),
                         *api = CT_CELL(row, events, api),
                         *name = CT_CELL(row, events, thread_name);
    const uint64_t t_ns = CT_CELL(row, events, t_ns)->number;
    const uint64_t track = tid->known ? OF_THREADS + tid->number : OF_PROCESS;
    uint64_t begin = t_ns, end = t_ns;
    uint64_t *last =
        tid->known ? get_thread(p, tid->number, name->known ? name->text : NULL) : NULL;
    if (lasted->known && op->known && is_recorded_at_begin(op->text))
        end = t_ns + lasted->number < t_ns ? t_ns : t_ns + lasted->number;
    else if (lasted->known)
        begin = lasted->number < t_ns ? t_ns - lasted->number : 0;
    if (last && begin < *last)
        begin = *last < end ? *last : end;
    const int is_slice = lasted->known && last && begin < end;
    begin_event(p, is_slice ? SLICE_BEGIN : INSTANT, track);
    const struct ct_cell *text = CT_CELL(row, events, text);
    const int is_mark = op->known && text->known && strcmp(op->text, "mark") == 0;
    put_name(p, is_mark ? text->text : api->known ? api->text : op->known ? op->text : "event");
    put_details(p, row);
    end_event(p, begin);
    if (!is_slice)
        return;
    *last = end;
    begin_event(p, SLICE_END, track);
    end_event(p, end);
}

static void write_phase(struct perfetto *p, const char *phase, uint64_t t_ns) {
    if (phase == p->phase)
        return;
    if (p->phase) {
        begin_event(p, SLICE_END, OF_PHASES);
        end_event(p, t_ns);
    }
    p->phase = phase;
    if (!phase)
        return;
    begin_event(p, SLICE_BEGIN, OF_PHASES);
    put_name(p, phase);
    end_event(p, t_ns);
}

// Ranges nest in a track of their own for each thread: another domain's may end in between.
static void write_range(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *tid = CT_CELL(row, events, tid), *text = CT_CELL(row, events, text),
                         *op = CT_CELL(row, events, op);
    const int begins = strcmp(op->text, "range-push") == 0;
    const struct ct_cell *name = CT_CELL(row, events, thread_name);
    (void)get_thread(p, tid->number, name->known ? name->text : NULL);
    uint64_t *open = get_ranges(p, tid->number);
    if (!begins && !*open)
        return;
    *open += begins ? 1 : UINT64_MAX;
    begin_event(p, begins ? SLICE_BEGIN : SLICE_END, OF_RANGES + tid->number);
    if (begins) {
        put_name(p, text->known ? text->text : "range");
        annotate(p, "domain", CT_CELL(row, events, domain), ANNOTATION_STRING);
    }
    end_event(p, CT_CELL(row, events, t_ns)->number);
}

static int is_range(const struct ct_cell *row) {
    const struct ct_cell *op = CT_CELL(row, events, op);
    return op->known && CT_CELL(row, events, tid)->known &&
           (strcmp(op->text, "range-push") == 0 || strcmp(op->text, "range-pop") == 0);
}

static int find_started(const struct perfetto *p, uint64_t handle) {
    for (int lane = 0; lane < STARTED; lane++)
        if (p->started[lane].is_open && p->started[lane].handle == handle)
            return lane;
    return -1;
}

static int find_free_lane(const struct perfetto *p) {
    for (int lane = 0; lane < STARTED; lane++)
        if (!p->started[lane].is_open)
            return lane;
    return -1;
}

// Returns 0 where there is no track for it.
static int write_started(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *op = CT_CELL(row, events, op), *handle = CT_CELL(row, events, handle),
                         *text = CT_CELL(row, events, text);
    const int begins = op->known && strcmp(op->text, "range-start") == 0;
    const int ends = op->known && strcmp(op->text, "range-end") == 0;
    if (!handle->known || (!begins && !ends))
        return 0;
    const int open = find_started(p, handle->number);
    const int lane = open < 0 && begins ? find_free_lane(p) : open;
    if (lane < 0 || (begins && open >= 0))
        return 0;
    if (!p->started[lane].has_track) {
        begin_track(p, OF_STARTED + (uint64_t)lane, "ranges of the process", OF_PROCESS);
        end_track(p);
        p->started[lane].has_track = 1;
    }
    p->started[lane].is_open = begins;
    p->started[lane].handle = handle->number;
    begin_event(p, begins ? SLICE_BEGIN : SLICE_END, OF_STARTED + (uint64_t)lane);
    if (begins) {
        put_name(p, text->known ? text->text : "range");
        annotate(p, "domain", CT_CELL(row, events, domain), ANNOTATION_STRING);
    }
    end_event(p, CT_CELL(row, events, t_ns)->number);
    return 1;
}

// ---- lifetimes ----------------------------------------------------------------------------------

static void note_lifetime(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *device = CT_CELL(row, allocations, device),
                         *event = CT_CELL(row, allocations, event),
                         *begin = CT_CELL(row, allocations, alloc_ns),
                         *end = CT_CELL(row, allocations, end_ns),
                         *bytes = CT_CELL(row, allocations, bytes),
                         *stack = CT_CELL(row, allocations, stack_id),
                         *site = CT_CELL(row, allocations, site);
    const int d = device->known ? (int)device->number : CT_MAX_DEVICES;
    const int is_block = strcmp(CT_CELL(row, allocations, kind)->text, "block") == 0;
    struct ct_lifetimes *to = &p->lifetimes[d][is_block ? OF_PYTORCH : OF_DRIVER];
    // A sum of several has no lifetime, and one that ended in a gap none that is known.
    if (!event->known || !begin->known || !bytes->known ||
        strcmp(CT_CELL(row, allocations, end)->text, "unknown") == 0) {
        to->all++;
        return;
    }
    const uint64_t last_ns =
        p->x->to_ns < p->x->trace->t_last_ns ? p->x->to_ns : p->x->trace->t_last_ns;
    const struct ct_lifetime a = {.bytes = bytes->number,
                                  .event = event->number,
                                  .from_ns = begin->number,
                                  .to_ns = end->known                ? end->number
                                           : begin->number < last_ns ? last_ns
                                                                     : begin->number,
                                  .stack = stack->known ? stack->number : 0,
                                  .is_freed = end->known};
    ct_lifetimes_add(to, &a, site->known ? site->text : "allocation");
}

// The tracks of a list have one name, by which viewers put them together.
static void write_lanes(struct perfetto *p, int device, enum lifetime_kind kind, uint64_t first,
                        unsigned lanes) {
    const struct ct_lifetimes *l = &p->lifetimes[device][kind];
    static const char *const titles[] = {"driver allocations", "PyTorch blocks"};
    char gpu[40], name[160];
    ct_export_device_title(device, gpu, sizeof gpu);
    if (l->all > l->count)
        (void)snprintf(name, sizeof name, "%s %s: the %zu largest of %" PRIu64, gpu, titles[kind],
                       l->count, l->all);
    else
        (void)snprintf(name, sizeof name, "%s %s: all %zu", gpu, titles[kind], l->count);
    for (unsigned i = 0; i < lanes; i++) {
        begin_track(p, first + i, name, OF_PROCESS);
        end_track(p);
    }
}

static void put_number(struct perfetto *p, const char *name, uint64_t number) {
    const struct ct_cell cell = {.known = 1, .number = number};
    annotate(p, name, &cell, ANNOTATION_UINT);
}

static void write_lifetimes(struct perfetto *p, int device, enum lifetime_kind kind) {
    struct ct_lifetimes *l = &p->lifetimes[device][kind];
    const uint64_t first = OF_LIFETIMES + ((uint64_t)device * LIFETIME_KINDS + kind) * CT_LIFETIMES;
    write_lanes(p, device, kind, first, ct_lifetimes_arrange(l));
    for (size_t i = 0; i < l->count; i++) {
        const struct ct_lifetime *a = &l->list[i];
        begin_event(p, SLICE_BEGIN, first + a->lane);
        put_name(p, a->site);
        put_number(p, "event", a->event);
        put_number(p, "bytes", a->bytes);
        put_number(p, "freed", (uint64_t)a->is_freed);
        if (a->stack)
            put_stack(p, (uint32_t)a->stack);
        end_event(p, a->from_ns);
        begin_event(p, SLICE_END, first + a->lane);
        end_event(p, a->to_ns);
    }
    ct_lifetimes_free(l);
}

// ---- rows ---------------------------------------------------------------------------------------

static void write_failed(struct perfetto *p, const struct ct_cell *row) {
    const struct ct_cell *stack = CT_CELL(row, failed, stack_id);
    const struct ct_cell *crossed = CT_CELL(row, failed, crossed);
    begin_event(p, INSTANT, OF_FAILURES);
    put_name(p, crossed->number ? "OOM that crossed capacity" : "OOM");
    annotate(p, "event", CT_CELL(row, failed, event), ANNOTATION_UINT);
    annotate(p, "api", CT_CELL(row, failed, api), ANNOTATION_STRING);
    annotate(p, "device", CT_CELL(row, failed, device), ANNOTATION_INT);
    annotate(p, "bytes", CT_CELL(row, failed, bytes), ANNOTATION_UINT);
    annotate(p, "free_bytes", CT_CELL(row, failed, free_bytes), ANNOTATION_UINT);
    annotate(p, "live_bytes", CT_CELL(row, failed, live_bytes), ANNOTATION_UINT);
    annotate(p, "retried", CT_CELL(row, failed, retried), ANNOTATION_UINT);
    if (stack->known)
        put_stack(p, (uint32_t)stack->number);
    end_event(p, CT_CELL(row, failed, t_ns)->number);
}

static void write_row(void *user, enum ct_export_table table, const struct ct_cell *row) {
    struct perfetto *p = user;
    if (table == CT_TABLE_memory) {
        write_memory(p, row);
    } else if (table == CT_TABLE_failed) {
        write_failed(p, row);
    } else if (table == CT_TABLE_allocations) {
        note_lifetime(p, row);
    } else {
        const struct ct_cell *op = CT_CELL(row, events, op);
        const struct ct_cell *phase = CT_CELL(row, events, phase);
        write_phase(p, phase->known ? phase->text : NULL, CT_CELL(row, events, t_ns)->number);
        if (is_range(row)) {
            write_range(p, row);
            return;
        }
        if (write_started(p, row))
            return;
        // Blocks are counters only: there are a thousand times more of them.
        if (!op->known ||
            (strcmp(op->text, "block-alloc") != 0 && strcmp(op->text, "block-free") != 0))
            write_call(p, row);
    }
}

int ct_export_write_perfetto(struct ct_export *x, struct ct_error *error) {
    struct perfetto *p = ct_heap_alloc_zeroed(1, sizeof *p);
    (void)error;
    p->x = x;
    p->out = x->out;
    ct_frame_table_init(&p->table, x);
    write_clocks(p, x->trace->t_first_ns);
    write_process(p);
    ct_tables_write(x, 1U << CT_TABLE_failed, write_row, p);
    ct_tables_write(x, 1U << CT_TABLE_events | 1U << CT_TABLE_memory | 1U << CT_TABLE_allocations,
                    write_row, p);
    write_phase(p, NULL, x->trace->t_last_ns);
    for (int d = 0; d < CT_DEVICES; d++)
        for (int kind = 0; kind < LIFETIME_KINDS; kind++)
            write_lifetimes(p, d, (enum lifetime_kind)kind);
    x->entries = p->packets;
    ct_frame_table_free(&p->table);
    ct_map_free(&p->stacks);
    ct_names_free(&p->names);
    ct_map_free(&p->threads);
    ct_map_free(&p->ranges);
    struct ct_message *const messages[] = {&p->packet, &p->interned, &p->event, &p->part,
                                           &p->other};
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        ct_message_free(messages[i]);
    free(p);
    return 0;
}

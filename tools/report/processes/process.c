// SPDX-License-Identifier: Apache-2.0
// Both passes end with a closed trace, so texts are copied out of it.
#include "processes/process.h"

#include <inttypes.h>

#include "base/utf8.h"
#include "question/question.h"
#include "read/clocks.h"

// Clocks are set while a machine runs; the time from one boot to the next is longer.
#define CLOCK_TOLERANCE_NS UINT64_C(1000000000)

// ---- facts --------------------------------------------------------------------------------------

static char *copy_string(const struct ct_string *s) {
    return s ? ct_heap_copy(s->at, s->length) : NULL;
}

static char *copy_fact(const struct ct_trace *t, const char *key) {
    return copy_string(ct_definitions_info(&t->definitions, key));
}

// Returns the name of the thread whose number is the process's.
static char *copy_main_thread(const struct ct_process *p, const struct ct_definitions *n) {
    for (size_t i = 1; p->pid_known && i < n->thread_count; i++)
        if (n->threads[i].tid == p->pid && n->threads[i].name)
            return copy_string(&n->strings[n->threads[i].name]);
    return NULL;
}

// Of a number in hexadecimal.
static int read_hash(const struct ct_string *s, uint64_t *hash) {
    char text[17], *end;
    if (!s || !s->length || s->length > 16)
        return 0;
    memcpy(text, s->at, s->length);
    text[s->length] = 0;
    *hash = strtoull(text, &end, 16);
    return !*end && text[0] != '-' && text[0] != '+';
}

// Who started the process, and for what job.
static void read_origin(struct ct_process *p, const struct ct_trace *t) {
    p->ppid_known = ct_definitions_info_number(&t->definitions, "process.ppid", &p->ppid);
    p->parent_trace_known =
        read_hash(ct_definitions_info(&t->definitions, "process.parent_trace"), &p->parent_trace);
    p->world = copy_fact(t, "process.env.WORLD_SIZE");
    p->flags_from = copy_fact(t, "process.program.from");
}

static void read_facts(struct ct_process *p, const struct ct_trace *t) {
    enum { LOCAL_RANK = 1 };
    static const char *const ranks[] = {
        "process.env.RANK",      "process.env.LOCAL_RANK", "process.env.OMPI_COMM_WORLD_RANK",
        "process.env.PMIX_RANK", "process.env.PMI_RANK",   "process.env.SLURM_PROCID"};
    const struct ct_definitions *n = &t->definitions;
    struct ct_clocks clocks;
    ct_clocks_read(&clocks, n);
    p->trace_id = t->index.trace_id;
    p->pid_known = ct_definitions_info_number(n, "process.pid", &p->pid);
    p->start_known = ct_definitions_info_number(n, "process.start_ns", &p->start_ns);
    p->clock_known = clocks.known;
    p->clock_offset = clocks.known ? clocks.realtime_ns - clocks.monotonic_ns : 0;
    read_origin(p, t);
    p->host_name = copy_fact(t, "host.name_hash");
    p->boot = copy_fact(t, "host.boot_hash");
    p->pid_namespace = copy_fact(t, "process.pid_namespace_hash");
    p->image = copy_fact(t, "process.image_hash");
    p->replaced_ns = UINT64_MAX;
    p->exe = copy_fact(t, "process.exe");
    p->thread = copy_main_thread(p, n);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks && !p->rank; i++) {
        p->rank = copy_fact(t, ranks[i]);
        p->rank_is_local = p->rank && i == LOCAL_RANK;
    }
    p->events = t->events;
    p->t_first_ns = t->t_first_ns;
    p->t_last_ns = t->t_last_ns;
    p->running = t->running;
    p->has_end = !t->incomplete && !t->running;
    p->has_beginning = !t->overwritten_events && t->index.count && t->index.chunks[0].head.seq == 0;
}

static void read_device_facts(struct ct_process_device *d, const struct ct_trace *t) {
    const struct ct_definitions *n = &t->definitions;
    d->kind = ct_device_kind_read(n, d->ordinal);
    if (d->ordinal >= CT_MAX_DEVICES)
        return;
    d->uuid_known = read_hash(ct_definitions_device_info(n, d->ordinal, "uuid_hash"), &d->uuid);
    d->index_known = ct_definitions_device_number(n, d->ordinal, "nvml_index", &d->nvml_index);
    d->name = copy_string(ct_definitions_device_info(n, d->ordinal, "name"));
}

// ---- the first pass -----------------------------------------------------------------------------

// What the curves need of the pass. Devices up to `highest` can have changed.
struct curves {
    struct ct_tracked_curve device[CT_DEVICES], untracked[CT_DEVICES];
    uint64_t level[CT_DEVICES], untracked_level[CT_DEVICES];
    uint64_t gaps, last_ns;
    int highest;
    struct ct_neighbours neighbours;
};

static void add_point(struct curves *c, const struct ct_replay *r, int device, uint64_t t_ns,
                      uint64_t began_ns) {
    const uint64_t tracked = ct_live_tracked(&r->live.device[device]);
    if (tracked == c->level[device])
        return;
    c->level[device] = tracked;
    ct_tracked_curve_add(&c->device[device], t_ns, began_ns, tracked);
}

// What NVML reported of the process beyond its allocations.
static void add_untracked(struct curves *c, const struct ct_replay *r, int device, uint64_t t_ns) {
    const struct ct_device_usage *u = &r->readings.device[device];
    if (!u->process_known || u->process_untracked == c->untracked_level[device])
        return;
    c->untracked_level[device] = u->process_untracked;
    ct_tracked_curve_add(&c->untracked[device], t_ns, t_ns, u->process_untracked);
}

// Between the last event before a gap and the first one after it nothing is known.
static void end_before_gap(struct curves *c, const struct ct_replay *r) {
    for (int d = 0; d < CT_DEVICES; d++) {
        if (c->level[d])
            ct_tracked_curve_add(&c->device[d], c->last_ns + 1, c->last_ns + 1, 0);
        c->level[d] = 0;
    }
    c->gaps = r->gaps;
    c->highest = CT_MAX_DEVICES - 1;
}

static void follow(void *user, const struct ct_replay *r, const struct ct_event *e,
                   uint64_t number) {
    struct curves *c = user;
    (void)number;
    const int index = ct_event_device_index(e);
    ct_neighbours_note(&c->neighbours, r, index, e);
    if (r->gaps != c->gaps)
        end_before_gap(c, r);
    c->last_ns = e->t_ns;
    if (ct_op_is_block(e->op))
        return;
    if (index < CT_MAX_DEVICES && index > c->highest)
        c->highest = index;
    const uint64_t lasted = CT_GET(e, duration_ns);
    const uint64_t began = lasted < e->t_ns ? e->t_ns - lasted : 0;
    for (int d = 0; d <= c->highest; d++)
        add_point(c, r, d, e->t_ns, began);
    add_point(c, r, CT_MAX_DEVICES, e->t_ns, began);
    if (e->op == CT_OP_MEMORY_SAMPLE && CT_HAS(e, process_bytes) && index < CT_MAX_DEVICES)
        add_untracked(c, r, index, e->t_ns);
}

static void add_devices(struct ct_process *p, struct ct_scan *s, struct curves *c,
                        const struct ct_trace *t) {
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!s->device[d].seen) {
            ct_tracked_curve_free(&c->device[d]);
            ct_tracked_curve_free(&c->untracked[d]);
            continue;
        }
        p->devices = ct_heap_resize(p->devices, p->device_count + 1, sizeof *p->devices);
        struct ct_process_device *made = &p->devices[p->device_count++];
        ct_tracked_curve_finish(&c->device[d]);
        ct_tracked_curve_finish(&c->untracked[d]);
        *made = (struct ct_process_device){.ordinal = d,
                                           .gpu = -1,
                                           .curve = c->device[d],
                                           .peak_known =
                                               ct_trace_is_known_at(t, c->device[d].high_t_ns),
                                           .untracked_curve = c->untracked[d]};
        read_device_facts(made, t);
    }
}

// The OOMs that were not recovered: the first one's time, and the last one as the crossing if that
// of the summary was recovered, because only host memory ran out for good.
static void read_failures(struct ct_process *p, const struct ct_incidents *n) {
    for (size_t k = 0; k < n->count; k++) {
        const struct ct_oom_event *head = ct_incidents_head(n, k);
        if (n->list[k].recovered)
            continue;
        if (!p->first_failure_ns || head->t_ns < p->first_failure_ns)
            p->first_failure_ns = head->t_ns;
        if (p->crossing.recovered)
            p->crossing = *head;
    }
}

void ct_process_identify(struct ct_process *p, const struct ct_trace *t) {
    read_facts(p, t);
    p->is_usable = 1;
}

void ct_process_scan(struct ct_process *p, struct ct_trace *t,
                     const struct ct_scan_request *request) {
    struct ct_scan *s = ct_heap_alloc_zeroed(1, sizeof *s);
    struct curves *c = ct_heap_alloc_zeroed(1, sizeof *c);
    read_facts(p, t);
    ct_question_scan(s, t, request, &(struct ct_listener){.self = c, .after = follow});
    add_devices(p, s, c, t);
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    p->has_crossing = crossing != NULL;
    if (crossing)
        p->crossing = *crossing;
    p->is_crossing_retried = crossing && ct_incidents_is_retried(&s->incidents, crossing);
    read_failures(p, &s->incidents);
    p->incidents = ct_incidents_count(&s->incidents);
    ct_neighbours_identify(&c->neighbours, &t->definitions);
    p->own_numbers = c->neighbours.own_numbers;
    p->inferred_pid = ct_neighbours_own_pid(&c->neighbours);
    ct_neighbours_free(&c->neighbours);
    p->lost = ct_trace_count_lost(t, s->lost);
    ct_scan_free(s);
    free(s);
    free(c);
}

int ct_process_has_failed(const struct ct_process *p) {
    return p->has_crossing && !p->crossing.recovered;
}

int ct_process_shows_end(const struct ct_process *p) {
    int is_read = 0;
    for (size_t i = 0; i < p->device_count; i++)
        is_read |= p->devices[i].nvml_readings.count || p->devices[i].untracked_curve.count;
    return p->has_end && is_read;
}

int ct_process_holds_nothing(const struct ct_process *p) {
    return p->knowledge == CT_PROCESS_NOT_STARTED || p->knowledge == CT_PROCESS_ENDED;
}

static int is_same_text(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

int ct_process_shares_clock(const struct ct_process *p, const struct ct_process *other) {
    const uint64_t a = p->clock_offset, b = other->clock_offset;
    const int same_machine = p->boot && other->boot ? is_same_text(p->boot, other->boot)
                                                    : is_same_text(p->host_name, other->host_name);
    return same_machine && p->clock_known && other->clock_known &&
           (a > b ? a - b : b - a) <= CLOCK_TOLERANCE_NS;
}

// The kernel reports a start in ticks of 10 ms, and each trace converts it with clocks of its own.
#define START_TOLERANCE_NS UINT64_C(10000000)

static int differs(const char *a, const char *b) {
    return a && b && strcmp(a, b) != 0;
}

// Whether both are in one PID namespace; the first processes of two containers may begin together.
static int has_same_numbers(const struct ct_process *p, const struct ct_process *other) {
    if (p->pid_namespace && other->pid_namespace)
        return strcmp(p->pid_namespace, other->pid_namespace) == 0;
    return p->own_numbers && other->own_numbers;
}

int ct_process_is_same(const struct ct_process *p, const struct ct_process *other) {
    const uint64_t a = p->start_ns, b = other->start_ns;
    return p->pid_known && other->pid_known && p->pid == other->pid && p->start_known &&
           other->start_known && (a > b ? a - b : b - a) <= START_TOLERANCE_NS &&
           has_same_numbers(p, other) && !differs(p->host_name, other->host_name) &&
           ct_process_shares_clock(p, other);
}

int ct_process_was_replaced_by(const struct ct_process *p, const struct ct_process *other) {
    return p->image && other->image && strcmp(p->image, other->image) != 0 && other->events &&
           other->t_first_ns > p->t_last_ns && ct_process_is_same(p, other);
}

uint64_t ct_process_to_moment(const struct ct_process *p, uint64_t t_ns) {
    const uint64_t by = (uint64_t)(p->shift_ns < 0 ? -p->shift_ns : p->shift_ns);
    if (p->shift_ns < 0)
        return t_ns > by ? t_ns - by : 0;
    return t_ns < UINT64_MAX - by ? t_ns + by : UINT64_MAX;
}

int ct_process_is_replaced(const struct ct_process *p, uint64_t t_ns) {
    return p->replaced_ns < UINT64_MAX && t_ns >= ct_process_to_moment(p, p->replaced_ns);
}

uint64_t ct_process_from_moment(const struct ct_process *p, uint64_t t_ns) {
    const struct ct_process back = {.shift_ns = -p->shift_ns};
    return ct_process_to_moment(&back, t_ns);
}

// ---- names --------------------------------------------------------------------------------------

const char *ct_process_program(const struct ct_process *p) {
    if (p->thread && (!p->exe || strncmp(p->exe, p->thread, strlen(p->thread)) != 0))
        return p->thread;
    return p->exe ? p->exe : "-";
}

void ct_process_name(const struct ct_process *p, char *to) {
    char name[25], pid[32] = "an unknown process";
    const char *what = p->rank ? p->rank : ct_process_program(p);
    ct_utf8_sanitize(name, sizeof name, what, strlen(what));
    if (p->pid_known)
        (void)snprintf(pid, sizeof pid, "pid %" PRIu64, p->pid);
    if (p->rank)
        (void)snprintf(to, CT_PROCESS_NAME, "rank %s (%s)", name, pid);
    else
        (void)snprintf(to, CT_PROCESS_NAME, "%s (%s)", pid, name);
}

// ---- the second pass ----------------------------------------------------------------------------

// What is known at the moment. `gap`: it lies in a gap of the events, or after one.
static enum ct_process_knowledge judge(const struct ct_process *p, uint64_t applied, int gap) {
    const uint64_t t = p->moment_ns;
    if (p->start_known && t < p->start_ns)
        return CT_PROCESS_NOT_STARTED;
    if (t >= p->replaced_ns)
        return CT_PROCESS_ENDED;
    if (gap || (!applied && !p->has_beginning))
        return CT_PROCESS_UNKNOWN;
    if (t <= p->t_last_ns || p->running)
        return CT_PROCESS_KNOWN;
    if (t - p->t_last_ns <= CT_PROCESS_LAST_SEEN_NS)
        return CT_PROCESS_LAST_SEEN;
    return ct_process_shows_end(p) ? CT_PROCESS_ENDED : CT_PROCESS_UNKNOWN;
}

// A thread that has freed memory and recorded nothing for so long has returned from the call.
#define FREE_TAKES_NS UINT64_C(100000000)

// The bytes of the frees of other threads of the process that were under way.
static uint64_t sum_pending_frees(const struct ct_readings *r, const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < CT_PENDING_FREES; i++) {
        const struct ct_pending_free *f = &r->pending_free[i];
        if (r->pending >> i & 1 && f->device == ct_event_device_index(e) && f->thread != thread &&
            e->t_ns - f->t_ns <= FREE_TAKES_NS)
            bytes += f->bytes;
    }
    return bytes;
}

static void add_reading(struct ct_process_readings *r, const struct ct_process_reading *reading) {
    r->list[r->count++ % CT_PROCESS_READINGS] = *reading;
}

const struct ct_process_reading *ct_process_readings_get(const struct ct_process_readings *r,
                                                         size_t back) {
    if (back >= r->count || back >= CT_PROCESS_READINGS)
        return NULL;
    return &r->list[(r->count - 1 - back) % CT_PROCESS_READINGS];
}

static struct ct_process_device *find_device(struct ct_process *p, int ordinal) {
    for (size_t i = 0; i < p->device_count; i++)
        if (p->devices[i].ordinal == ordinal)
            return &p->devices[i];
    return NULL;
}

// Keeps the reading that an event carries; the event has been applied.
static void note_reading(struct ct_process *p, const struct ct_replay *r,
                         const struct ct_event *e) {
    const int index = ct_event_device_index(e), nvml = CT_HAS(e, flags) && e->flags & CT_FLAG_NVML;
    struct ct_process_device *d = find_device(p, index);
    if (!d || !CT_HAS(e, free_bytes) || !CT_HAS(e, total_bytes))
        return;
    const struct ct_process_reading reading = {
        .t_ns = ct_process_to_moment(p, e->t_ns),
        .free = e->free_bytes,
        .total = ct_readings_total(&r->readings.device[index], e, nvml),
        .tracked = ct_live_tracked(&r->live.device[index]),
        .process_bytes = CT_GET(e, process_bytes),
        .frees = sum_pending_frees(&r->readings, e)};
    add_reading(&d->readings, &reading);
    if (nvml && CT_HAS(e, process_bytes))
        add_reading(&d->nvml_readings, &reading);
}

// What fills the device, as far as the process's own trace says.
static void read_account(struct ct_process_device *d, const struct ct_replay *r,
                         struct ct_phases *phases) {
    struct ct_live_totals live;
    ct_live_at_read(&live, r, d->ordinal, CT_ROWS_BY_BLOCK);
    live.split = d->split;
    ct_account_make(&d->account, phases, &live);
    ct_live_at_free(&live);
}

// What is shared, of each device that the process uses and of all others together: memory of other
// processes lies where they allocated it.
static void read_shared(struct ct_process *p, const struct ct_sharing *sharing,
                        const struct ct_replay *r) {
    struct ct_shared of[CT_DEVICES];
    ct_sharing_sum(sharing, &r->live, of);
    p->shared_elsewhere = (struct ct_shared){0};
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_process_device *used = find_device(p, d);
        if (used)
            used->shared = of[d];
        else
            ct_shared_add(&p->shared_elsewhere, &of[d]);
    }
}

// What the events up to a moment say of a process.
struct state {
    struct ct_process *process;
    uint64_t applied, last_ns;
};

static void note_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct state *s = self;
    (void)number;
    note_reading(s->process, r, e);
    s->applied++;
    s->last_ns = e->t_ns;
}

void ct_process_read_state(struct ct_process *p, struct ct_trace *t, struct ct_phases *phases,
                           uint64_t t_ns, uint64_t last) {
    struct ct_replay *r = ct_heap_alloc_zeroed(1, sizeof *r);
    struct ct_sharing sharing = {0};
    const struct ct_moment moment = {CT_MOMENT_TIME, -1, last, t_ns};
    struct state s = {.process = p};
    struct ct_trace_gap gap;
    ct_question_moment(r, &moment, t, &sharing,
                       &(struct ct_listener){.self = &s, .after = note_event});
    p->moment_ns = t_ns;
    p->knowledge =
        judge(p, s.applied,
              !r->is_known || (s.applied && t_ns > s.last_ns && ct_trace_find_gap(t, t_ns, &gap)));
    for (size_t i = 0; i < p->device_count; i++) {
        struct ct_process_device *d = &p->devices[i];
        d->split = ct_replay_split(r, d->ordinal);
        if (p->has_crossing && p->crossing.event == last && p->crossing.device == d->ordinal)
            d->split = p->crossing.split; // with what NVML reported soon afterwards
        read_account(d, r, phases);
        d->asleep = ct_live_at_sum_asleep(r, d->ordinal);
    }
    read_shared(p, &sharing, r);
    ct_sharing_free(&sharing);
    ct_replay_free(r);
    free(r);
}

void ct_process_free(struct ct_process *p) {
    for (size_t i = 0; i < p->device_count; i++) {
        ct_tracked_curve_free(&p->devices[i].curve);
        ct_tracked_curve_free(&p->devices[i].untracked_curve);
        free(p->devices[i].name);
    }
    free(p->devices);
    free(p->host_name);
    free(p->boot);
    free(p->pid_namespace);
    free(p->image);
    free(p->exe);
    free(p->thread);
    free(p->rank);
    free(p->world);
    free(p->flags_from);
    *p = (struct ct_process){0};
}

// ---- processes that NVML lists ------------------------------------------------------------------

enum { NAME = 33 };

static const char *describe(const struct ct_neighbour *p) {
    switch (p->whose) {
    case CT_NEIGHBOUR_SELF:
        return ", this process";
    case CT_NEIGHBOUR_SELF_INFERRED:
        return ", this process, inferred from its memory";
    default:
        return "";
    }
}

void ct_neighbour_label(const struct ct_definitions *definitions, const struct ct_neighbour *p,
                        char *to) {
    const struct ct_string *s = &definitions->strings[p->name];
    char name[NAME] = "", traced[CT_PROCESS_NAME] = "";
    if (p->name)
        ct_utf8_sanitize(name, sizeof name, s->at, s->length);
    if (p->process)
        ct_process_name(p->process, traced);
    if (!p->pid)
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "processes without a number");
    else if (p->process)
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "%s, traced%s", traced,
                       p->whose == CT_NEIGHBOUR_SIBLING_INFERRED ? ", inferred from its memory"
                                                                 : "");
    else if (*name)
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "%s (pid %" PRIu32 "%s)", name, p->pid, describe(p));
    else
        (void)snprintf(to, CT_NEIGHBOUR_LABEL, "pid %" PRIu32 "%s", p->pid, describe(p));
}

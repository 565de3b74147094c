// SPDX-License-Identifier: Apache-2.0
// moments_program [--torch] TRACE...: replays traces as the report does and looks at each device
// after every event, driven by tests/report/test_consistency.py.
//
// What it expects comes from a second implementation: plain lists of what is live (state_model.h),
// and a list of all events, in which it looks for the calls that a reading fell into.
#include "state_model.h"

#include <inttypes.h>

#include "read/trace.h"
#include "replay/replay.h"

enum { DEVICES = CT_MAX_DEVICES, STACKS = 1 << 16, THREADS = 256, PROBLEMS = 10 };
#define LONGEST_FREE UINT64_C(10000000000)
#define MIB (UINT64_C(1) << 20)

// What a device's last reading left unexplained, by the rule of readings.h.
struct expected {
    int known;
    uint64_t unexplained;
};

struct moments {
    const char *path;
    int by_torch;   // recorded with PyTorch
    int is_partial; // it begins with a checkpoint, of which the lists know nothing
    struct ct_replay replay;
    struct plain plain;
    struct ct_event *events; // all of them
    size_t count, room;
    uint64_t longest; // call
    unsigned threads;
    struct expected device[DEVICES];
    int64_t stacks[STACKS]; // live bytes by stack, of all devices
    int64_t total;
    uint64_t moments, readings, during_calls, problems;
    uint64_t least, most; // unexplained bytes at any moment
};

static struct moments m;

#define EXPECT(condition, ...)                                      \
    do {                                                            \
        if (!(condition) && m.problems++ < PROBLEMS) {              \
            printf("problem: %s, event %" PRIu64 ": ", m.path, at); \
            printf(__VA_ARGS__);                                    \
            putchar('\n');                                          \
        }                                                           \
    } while (0)

static void changed(void *user, const struct ct_object *o, int sign) {
    (void)user;
    m.stacks[o->stack % STACKS] += sign * (int64_t)o->bytes;
    m.total += sign * (int64_t)o->bytes;
}

static void read_events(struct ct_trace *t) {
    struct ct_event e;
    uint64_t number;
    m.count = 0;
    while (ct_trace_next(t, &e, &number)) {
        if (m.count == m.room)
            m.events = realloc(m.events, (m.room = m.room ? m.room * 2 : 4096) * sizeof e);
        m.events[m.count++] = e;
        if (CT_HAS(&e, duration_ns) && e.duration_ns > m.longest)
            m.longest = e.duration_ns;
        if (CT_HAS(&e, thread) && e.thread >= m.threads)
            m.threads = e.thread + 1;
    }
    ct_trace_rewind(t);
}

// ---- what is expected ---------------------------------------------------------------------------

static uint64_t plain_tracked(const struct ct_live *sums, int device) {
    const struct ct_live_device *d = &sums->device[device];
    return d->live_bytes - d->managed_bytes - d->pooled_bytes + d->pool_bytes;
}

static uint64_t round_up(const struct ct_event *e) {
    const uint64_t step = CT_HAS(e, flags) && e->flags & CT_FLAG_ASYNC ? 32 * MIB : 2 * MIB;
    return (e->bytes + step - 1) / step * step;
}

// The allocations that began before reading `at` and returned after it.
static uint64_t allocations_around(size_t at) {
    const struct ct_event *r = &m.events[at];
    uint64_t bytes = 0;
    for (size_t i = at + 1; i < m.count && m.events[i].t_ns - r->t_ns <= m.longest; i++) {
        const struct ct_event *e = &m.events[i];
        if ((e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE) && CT_HAS(e, bytes) &&
            CT_HAS(e, duration_ns) && !(CT_HAS(e, result) && e->result) &&
            !(CT_HAS(e, space) && e->space != CT_SPACE_DEVICE) && plain_device(e) == r->device &&
            e->t_ns - e->duration_ns < r->t_ns)
            bytes += round_up(e);
    }
    return bytes;
}

// The frees that may not have returned at reading `at`: each the last event of its thread. `freed`
// has what each event freed.
static uint64_t frees_around(size_t at, const uint64_t *freed) {
    const struct ct_event *r = &m.events[at];
    uint8_t seen[THREADS] = {0}; // a later event of the thread
    unsigned left = m.threads + 1;
    uint64_t bytes = 0;
    for (size_t i = at + 1; left && i-- > 0 && r->t_ns - m.events[i].t_ns <= LONGEST_FREE;) {
        const struct ct_event *e = &m.events[i];
        uint8_t *later = &seen[CT_HAS(e, thread) ? e->thread % THREADS : 0];
        if (freed[i] && !*later && plain_device(e) == r->device)
            bytes += freed[i];
        left -= !*later;
        *later = 1;
    }
    return bytes;
}

static void expect_reading(size_t at, uint64_t tracked, uint64_t total, const uint64_t *freed) {
    const struct ct_event *e = &m.events[at];
    struct expected *x = &m.device[e->device];
    const uint64_t used = total > e->free_bytes ? total - e->free_bytes : 0;
    const uint64_t calls = allocations_around(at) + frees_around(at, freed);
    uint64_t now = used > tracked ? used - tracked : 0;
    const int failed = CT_HAS(e, result) && e->result;
    m.readings++;
    m.during_calls += calls != 0;
    if (calls && !x->known && !failed)
        return;
    if (calls && x->known && now > x->unexplained)
        now = now - x->unexplained > calls ? now - calls : x->unexplained;
    else if (calls && !x->known && now >= calls)
        now -= calls;
    x->known = 1;
    x->unexplained = now;
}

// ---- what is found ------------------------------------------------------------------------------

static void check_split(uint64_t at, int device, const struct ct_live *sums) {
    const struct ct_breakdown s = ct_replay_split(&m.replay, device);
    const struct expected *x = &m.device[device];
    const uint64_t tracked = plain_tracked(sums, device);
    m.moments++;
    EXPECT(!s.used_known || s.total == s.free + s.tracked + s.in_flight + s.untracked + s.others +
                                           s.unattributed,
           "device %d: %" PRIu64 " are not the sum of the parts", device, s.total);
    if (m.is_partial)
        return;
    EXPECT(s.tracked == tracked, "device %d: tracked %" PRIu64 ", the objects are %" PRIu64, device,
           s.tracked, tracked);
    EXPECT(s.used_known == x->known, "device %d: use known %d", device, s.used_known);
    if (!s.used_known || !x->known)
        return;
    EXPECT(s.unexplained == x->unexplained,
           "device %d: %" PRIu64 " untracked and others, expected %" PRIu64, device, s.unexplained,
           x->unexplained);
    m.least = s.unexplained < m.least ? s.unexplained : m.least;
    m.most = s.unexplained > m.most ? s.unexplained : m.most;
}

static void check_sums(uint64_t at, const struct ct_live *sums) {
    int64_t by_stack = 0;
    uint64_t live = 0;
    for (unsigned i = 0; i < STACKS; i++)
        by_stack += m.stacks[i];
    for (int d = 0; d < CT_DEVICES; d++) {
        live += sums->device[d].live_bytes;
        EXPECT(!memcmp(&sums->device[d], &m.replay.live.device[d], sizeof sums->device[d]),
               "device %d: totals differ from the sums of the objects", d);
    }
    EXPECT(by_stack == (int64_t)live, "stacks have %" PRId64 " of %" PRIu64 " bytes", by_stack,
           live);
}

// PyTorch reports the bytes in its blocks with each block. (A trace made by hand need not.)
static void check_block(uint64_t at, const struct ct_event *e, const struct ct_live *sums) {
    const int device = plain_device(e);
    if (!m.by_torch || device < 0 || !CT_HAS(e, allocated_bytes) || e->op == CT_OP_BLOCK_OOM)
        return;
    EXPECT(sums->device[device].block_bytes == e->allocated_bytes,
           "blocks have %" PRIu64 " bytes, PyTorch says %" PRIu64, sums->device[device].block_bytes,
           e->allocated_bytes);
}

static uint64_t cuda_total(const struct ct_trace *t, const struct ct_event *e) {
    char key[64];
    uint64_t total = 0;
    (void)snprintf(key, sizeof key, "device.%d.meminfo_total_bytes", e->device);
    if (!(CT_HAS(e, flags) && e->flags & CT_FLAG_NVML))
        return e->total_bytes;
    if (ct_definitions_info_number(&t->definitions, key, &total))
        return total;
    (void)snprintf(key, sizeof key, "device.%d.total_bytes", e->device);
    return ct_definitions_info_number(&t->definitions, key, &total) ? total : e->total_bytes;
}

static void check_trace(struct ct_trace *t) {
    const struct ct_event *e;
    uint64_t number, before = 0;
    static struct ct_live sums;
    memset(&sums, 0, sizeof sums);
    read_events(t);
    uint64_t *freed = calloc(m.count + 1, sizeof *freed);
    for (size_t i = 0; (e = ct_replay_next(&m.replay, t, &number)); i++) {
        const int device = plain_device(e);
        ct_replay_apply(&m.replay, e, number);
        m.is_partial |= m.replay.resets != 0;
        if (device >= 0)
            before = plain_tracked(&sums, device);
        plain_apply(&m.plain, e, number);
        plain_totals(&m.plain, &sums);
        if (device >= 0 && plain_tracked(&sums, device) < before)
            freed[i] = before - plain_tracked(&sums, device);
        if (device >= 0 && CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes))
            expect_reading(i, plain_tracked(&sums, device), cuda_total(t, e), freed);
        for (int d = 0; d < DEVICES; d++)
            if (m.replay.readings.device[d].seen)
                check_split(number, d, &sums);
        if (m.is_partial)
            continue;
        if (i % 97 == 0 || i + 1 == m.count)
            check_sums(number, &sums);
        check_block(number, e, &sums);
    }
    free(freed);
}

int main(int argc, char **argv) {
    uint64_t problems = 0;
    const int by_torch = argc > 1 && !strcmp(argv[1], "--torch");
    for (int i = 1 + by_torch; i < argc; i++) {
        struct ct_trace t = {.no_journal = 1};
        struct ct_error error;
        memset(&m, 0, sizeof m);
        m.least = UINT64_MAX;
        m.path = argv[i];
        m.by_torch = by_torch;
        if (ct_trace_open(&t, argv[i], &error))
            return 1;
        ct_replay_init(&m.replay);
        m.replay.live.total_changed = changed;
        m.replay.tiles = 1;
        check_trace(&t);
        printf("%s: moments %" PRIu64 " readings %" PRIu64 " during_calls %" PRIu64
               " least %" PRIu64 " most %" PRIu64 "\n",
               argv[i], m.moments, m.readings, m.during_calls, m.most ? m.least : 0, m.most);
        problems += m.problems;
        ct_replay_free(&m.replay);
        ct_trace_close(&t);
        free(m.events);
    }
    return problems != 0;
}

// SPDX-License-Identifier: Apache-2.0
// No label has a value that comes from a trace but `program`, which is cut; call sites and paths
// are for /verdict.json.
#include "watch/watch.h"

#include <inttypes.h>
#include <string.h>

#include "base/now.h"
#include "base/openmetrics.h"
#include "base/utf8.h"
#include "base/version.h"

enum { PROGRAM = 33 }; // bytes of the label

enum metric {
#define CT_WATCH_METRIC(ID, name, unit, type, writer, labels, help) ID,
#include "watch/metrics.def"
    METRICS
};
static const struct ct_openmetrics_family metrics[METRICS] = {
#define CT_WATCH_METRIC(ID, name, unit, type, writer, labels, help) {name, unit, type, help},
#include "watch/metrics.def"
};

struct page {
    struct ct_openmetrics to;
    const struct ct_watch_list *list;
    uint64_t now_ns, utc_ns;      // of the answer; utc: since 1970, at 0 of CLOCK_MONOTONIC
    uint8_t shown[CT_WATCH_MOST]; // entries of the list
};

// ---- samples ------------------------------------------------------------------------------------

static void put_label(const struct page *p, const char *before, const char *label,
                      const char *text) {
    fprintf(p->to.out, "%s%s=\"", before, label);
    ct_openmetrics_put_text(&p->to, text);
    putc('"', p->to.out);
}

// The name of the program without its folder, cut.
static void put_program(const struct page *p, const struct ct_watch_process *of) {
    char program[PROGRAM];
    const char *slash = strrchr(of->program, '/'), *name = slash ? slash + 1 : of->program;
    if (!of->is_named) // it is the file name of the trace
        name = "";
    ct_utf8_sanitize(program, sizeof program, name, strlen(name));
    put_label(p, ",", "program", program);
}

static void begin_sample(const struct page *p, enum metric m, const struct ct_watch_process *of) {
    ct_openmetrics_put_name(&p->to, &metrics[m]);
    fprintf(p->to.out, "{pid=\"%" PRIu32 "\"", of->pid);
    put_program(p, of);
}

static void begin_of_device(const struct page *p, enum metric m, const struct ct_watch_process *of,
                            int ordinal) {
    char text[16] = "unknown";
    begin_sample(p, m, of);
    if (ordinal < CT_MAX_DEVICES)
        (void)snprintf(text, sizeof text, "%d", ordinal);
    put_label(p, ",", "device", text);
}

static void end_sample(const struct page *p, uint64_t value) {
    putc('}', p->to.out);
    ct_openmetrics_put_number(&p->to, value);
}

static void end_seconds(const struct page *p, uint64_t ns) {
    putc('}', p->to.out);
    ct_openmetrics_put_seconds(&p->to, ns);
}

// ---- writers ------------------------------------------------------------------------------------

// Each is called for the watch (no process), for each process (no device), and for each device of
// a process that runs, with its details; it writes the samples of what its metrics are of.

static uint64_t count_alive(const struct ct_watch_list *l) {
    uint64_t count = 0;
    for (size_t i = 0; i < l->count; i++)
        count += ct_watch_is_alive(&l->entries[i].process) != 0;
    return count;
}

static void put_watch(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                      const struct ct_watch_device *d) {
    if (e || d)
        return;
    ct_openmetrics_put_name(&p->to, &metrics[m]);
    if (m == BUILD) {
        put_label(p, "{", "version", CT_VERSION);
        end_sample(p, 1);
    } else if (m == LOOK) {
        ct_openmetrics_put_seconds(&p->to, p->now_ns + p->utc_ns);
    } else {
        ct_openmetrics_put_number(&p->to, m == SKIPPED ? p->list->skips : count_alive(p->list));
    }
}

static void put_state(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                      const struct ct_watch_device *d) {
    for (int state = CT_WATCH_RECORDING; e && !d && state <= CT_WATCH_ENDED; state++) {
        begin_sample(p, m, &e->process);
        put_label(p, ",", "state", ct_watch_state_name((enum ct_watch_state)state));
        end_sample(p, (int)e->process.state == state);
    }
}

static void put_process(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                        const struct ct_watch_device *d) {
    const struct ct_watch_process *of = e && !d ? &e->process : NULL;
    const int needs_details = m == START || m == AGE, is_of_running = m == AGE || m == PROBLEM;
    if (!of || (needs_details && !of->has_details) || (is_of_running && !ct_watch_is_alive(of)))
        return;
    begin_sample(p, m, of);
    if (m == START)
        end_seconds(p, of->details.start_ns + p->utc_ns);
    else if (m == AGE)
        end_seconds(p, p->now_ns > of->details_ns ? p->now_ns - of->details_ns : 0);
    else
        end_sample(p, m == EVENTS    ? of->head.events
                      : m == LOST    ? of->head.lost
                      : m == WRITTEN ? of->head.bytes_written
                                     : of->problem != NULL);
}

static void put_requests(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                         const struct ct_watch_device *d) {
    static const char *const outcomes[] = {"failed", "recovered_later", "retried"};
    for (int i = 0; e && !d && i < CT_WATCH_OUTCOMES; i++) {
        begin_sample(p, m, &e->process);
        put_label(p, ",", "outcome", outcomes[i]);
        end_sample(p, e->news.requests[i]);
    }
}

static void put_incidents(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                          const struct ct_watch_device *d) {
    for (int i = 0; e && !d && i < CT_SCENARIOS; i++) {
        if (!e->news.scenarios[i])
            continue;
        begin_sample(p, m, &e->process);
        put_label(p, ",", "scenario", ct_scenario_name((enum ct_scenario)i));
        end_sample(p, e->news.scenarios[i]);
    }
}

// Figures of the header: memory is of processes that run.
static void put_of_header(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                          const struct ct_watch_device *d) {
    if (!e || d || (m != FAILED_CALLS && !ct_watch_is_alive(&e->process)))
        return;
    for (int i = 0; i < CT_JOURNAL_DEVICES; i++) {
        const struct ct_journal_device *n = &e->process.head.device[i];
        if (!ct_watch_is_used(n))
            continue;
        begin_of_device(p, m, &e->process, i);
        end_sample(p, m == LIVE ? n->tracked : m == PEAK ? n->peak : n->ooms);
    }
}

static void put_of_device(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                          const struct ct_watch_device *d) {
    if (!d || !(m == CAPACITY || m == FREE ? d->is_read : d->pool.known && d->pool.reported))
        return;
    const uint64_t values[METRICS] = {[CAPACITY] = d->total,
                                      [FREE] = d->part[CT_WATCH_FREE],
                                      [TORCH_ALLOCATED] = d->pool.allocated,
                                      [TORCH_RESERVED] = d->pool.reserved,
                                      [TORCH_LARGEST] = d->pool.free.largest,
                                      [TORCH_HELD] = d->pool.held_open_bytes};
    begin_of_device(p, m, &e->process, d->ordinal);
    end_sample(p, values[m]);
}

static void put_parts(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                      const struct ct_watch_device *d) {
    for (int i = 0; d && i < CT_WATCH_PARTS && (d->is_read || i <= CT_WATCH_MEMPOOL_IDLE); i++) {
        const char *key = ct_watch_parts[i].key;
        char part[32]; // without "_bytes"
        (void)snprintf(part, sizeof part, "%.*s", (int)(strlen(key) - strlen("_bytes")), key);
        begin_of_device(p, m, &e->process, d->ordinal);
        put_label(p, ",", "part", part);
        end_sample(p, d->part[i]);
    }
}

static void put_growth(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                       const struct ct_watch_device *d) {
    for (int is_whole = 0; d && is_whole < 2; is_whole++) {
        const struct ct_trend *t = is_whole ? &d->whole : &d->own;
        const double by = m == GROWTH_LOW ? -t->error : m == GROWTH_HIGH ? t->error : 0;
        if (!ct_trend_is_known(t))
            continue;
        begin_of_device(p, m, &e->process, d->ordinal);
        put_label(p, ",", "of", is_whole ? "device" : "process");
        fprintf(p->to.out, "} %.3f\n", t->slope + by);
    }
}

static void put_full(const struct page *p, enum metric m, const struct ct_watch_entry *e,
                     const struct ct_watch_device *d) {
    if (!d || !d->has_full)
        return;
    begin_of_device(p, m, &e->process, d->ordinal);
    end_seconds(p, m == FULL            ? d->full.ns
                   : m == FULL_EARLIEST ? d->full.earliest_ns
                                        : d->full.latest_ns);
}

// ---- the page -----------------------------------------------------------------------------------

// Whether a process is told in place of another one of the same pid: one that was replaced (exec),
// or ended before.
static int is_better(const struct ct_watch_process *a, const struct ct_watch_process *b) {
    const uint64_t a_ended = a->ended_ns ? a->ended_ns : UINT64_MAX;
    const uint64_t b_ended = b->ended_ns ? b->ended_ns : UINT64_MAX;
    return a_ended > b_ended;
}

// Each pid is told once: two samples with the same labels would be none.
static void choose(struct page *p) {
    const struct ct_watch_list *l = p->list;
    for (size_t i = 0; i < l->count; i++) {
        const struct ct_watch_process *of = &l->entries[i].process;
        p->shown[i] = !of->ended_ns || p->now_ns - of->ended_ns <= CT_WATCH_TOLD_NS;
        for (size_t k = 0; k < i && p->shown[i]; k++) {
            const struct ct_watch_process *other = &l->entries[k].process;
            if (!p->shown[k] || other->pid != of->pid)
                continue;
            p->shown[k] = is_better(other, of);
            p->shown[i] = !p->shown[k];
        }
    }
}

static void put_family(const struct page *p, enum metric m,
                       void (*put)(const struct page *, enum metric, const struct ct_watch_entry *,
                                   const struct ct_watch_device *)) {
    ct_openmetrics_begin(&p->to, &metrics[m]);
    put(p, m, NULL, NULL);
    for (size_t i = 0; i < p->list->count; i++) {
        const struct ct_watch_entry *e = &p->list->entries[i];
        if (!p->shown[i])
            continue;
        put(p, m, e, NULL);
        for (size_t k = 0; ct_watch_is_alive(&e->process) && k < e->process.details.device_count;
             k++)
            put(p, m, e, &e->process.details.devices[k]);
    }
}

void ct_metrics_page_print(FILE *out, const struct ct_watch_list *l, int is_prometheus) {
    struct page p = {.to = {.out = out, .is_prometheus = is_prometheus, .time = ""},
                     .list = l,
                     .now_ns = ct_now_ns(CLOCK_MONOTONIC)};
    p.utc_ns = ct_now_ns(CLOCK_REALTIME) - p.now_ns;
    choose(&p);
#define CT_WATCH_METRIC(ID, name, unit, type, writer, labels, help) \
    put_family(&p, ID, put_##writer);
#include "watch/metrics.def"
    ct_openmetrics_end(&p.to);
}

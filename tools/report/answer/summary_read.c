// SPDX-License-Identifier: Apache-2.0
#include "answer/summary_read.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "analyze/live_at.h"
#include "answer/companions.h"
#include "answer/fit_read.h"
#include "base/heap.h"
#include "diagnose/metrics_verdicts.h"
#include "diagnose/text_verdicts.h"
#include "diagnose/trace_verdicts.h"
#include "question/question.h"
#include "read/recorder_notes.h"
#include "sites/site_groups.h"

int ct_summary_has_shared(const struct ct_summary *s) {
    const uint64_t *ops = s->scan.ops;
    return ops[CT_OP_EXPORT] || ops[CT_OP_IPC_OPEN] || ops[CT_OP_IMPORT];
}

struct ct_shared ct_summary_sum_shared(const struct ct_summary *s) {
    struct ct_shared sum = {0};
    for (int d = 0; d < CT_DEVICES; d++)
        ct_shared_add(&sum, &s->shared[d]);
    return sum;
}

// Returns how many calls failed on a device, of those that the recorder counts in the coarse
// history. It does not know incidents.
static uint64_t count_failed_calls(const struct ct_incidents *n, int device) {
    uint64_t calls = 0;
    for (const struct ct_oom_event *o = n->ooms; o < n->ooms + n->oom_count; o++)
        calls += o->device == device && o->op != CT_OP_BLOCK_OOM;
    return calls;
}

uint64_t ct_summary_count_overwritten_ooms(const struct ct_summary *s) {
    if (s->device < 0)
        return 0;
    const struct ct_coarse_summary past = ct_coarse_history_summarize(s->v->trace, s->device);
    const uint64_t calls = count_failed_calls(&s->scan.incidents, s->device);
    return past.ooms > calls ? past.ooms - calls : 0;
}

static void read_live(struct ct_summary *s) {
    const struct ct_device_scan *d = &s->scan.device[s->device];
    if (!s->crossing)
        (void)ct_peak_totals_get(&d->totals, CT_TOTALS_AT_PEAK, d->peak_event, CT_ROWS_BY_BLOCK,
                                 &s->live);
    // The crossing is the last OOM, unless a later retry of that one succeeded or there is a
    // budget.
    else if (!ct_peak_totals_get(&d->totals, CT_TOTALS_AT_OOM, s->crossing->event, CT_ROWS_BY_BLOCK,
                                 &s->live))
        ct_question_before(&s->live, s->v->trace, s->crossing->event, s->device);
}

static uint64_t sum_registered(const struct ct_definitions *n, const struct ct_live *l) {
    size_t count;
    uint64_t sum = 0;
    struct ct_host_memory *list = ct_host_memory_list(n, l, &count);
    for (size_t i = 0; i < count; i++)
        sum += list[i].registered ? list[i].bytes : 0;
    free(list);
    return sum;
}

static int has_program_pools(const struct ct_scan *s) {
    uint64_t count = 0;
    for (int op = CT_OP_SUBALLOC; op <= CT_OP_SUBNAME; op++)
        count += s->ops[op];
    return count != 0;
}

static void sum_shared(struct ct_summary *s, const struct ct_sharing *sharing,
                       const struct ct_moment *moment, const struct ct_live *live) {
    ct_sharing_sum(sharing, live, s->shared);
    s->host_registered = sum_registered(&s->v->trace->definitions, live);
    if (has_program_pools(&s->scan))
        ct_program_pools_read(&s->program_pools, s->v->trace, moment, live);
}

// Sums what is shared, registered or in pools of the program at the moment of the text. Few traces
// have such memory: these are read once more, unless the pass has ended at the moment.
static void read_moment(struct ct_summary *s) {
    const struct ct_moment moment =
        ct_moment_find(&s->scan, s->v->trace, CT_MOMENT_OOM, s->device, NULL);
    struct ct_sharing sharing = {0};
    struct ct_replay replay;
    if (s->has_moment ||
        (!ct_summary_has_shared(s) && !s->scan.ops[CT_OP_REGISTER] && !has_program_pools(&s->scan)))
        return;
    ct_question_moment(&replay, &moment, s->v->trace, &sharing, NULL);
    sum_shared(s, &sharing, &moment, &replay.live);
    ct_replay_free(&replay);
    ct_sharing_free(&sharing);
}

void ct_summary_set_siblings(const struct ct_view *v, struct ct_account *a, int device,
                             uint64_t t_ns, struct ct_siblings *siblings) {
    struct ct_siblings found;
    if (!v->processes || !a->known)
        return;
    ct_siblings_find(&found, v->processes, v->process, device, t_ns, ct_account_others(a));
    ct_account_set_siblings(a, found.bytes);
    if (siblings)
        *siblings = found;
    else
        ct_siblings_free(&found);
}

// Makes the accounts of the devices after the last event.
static void read_end(struct ct_summary *s) {
    struct ct_live_totals live;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!s->scan.device[d].seen)
            continue;
        ct_live_at_read(&live, &s->scan.end, d, CT_ROWS_BY_BLOCK);
        ct_scan_limit_free(&live.split, s->v->options->capacity);
        ct_account_make(&s->at_end[d], s->v->phases, &live);
        ct_summary_set_siblings(s->v, &s->at_end[d], d, s->v->trace->t_last_ns, NULL);
        ct_live_at_free(&live);
    }
}

// Reads the state at the moment of --at, where the pass has ended.
static void read_then(struct ct_summary *s) {
    ct_live_at_read(&s->live_then, &s->scan.end, s->device, CT_ROWS_BY_BLOCK);
    ct_scan_limit_free(&s->live_then.split, s->v->options->capacity);
    ct_site_groups_refine(s->v->sites, s->live_then.holdings, s->live_then.holding_count);
    ct_account_make(&s->account_then, s->v->phases, &s->live_then);
    sum_shared(s, &s->scan.sharing, &s->moment, &s->scan.end.live);
}

// ---- verdicts -----------------------------------------------------------------------------------

void ct_summary_join_companions(struct ct_verdicts *to, const struct ct_companions *c,
                                const struct ct_facts *facts, uint64_t capacity,
                                const struct ct_vllm_fit *fit, const char *source) {
    struct ct_verdicts of_log = {0}, of_metrics = {0};
    if (c->has_log) {
        struct ct_text_facts log = c->log; // with what the trace knows, where the log does not
        log.capacity = capacity <= INT64_MAX ? (int64_t)capacity : 0;
        ct_text_verdicts_find(&log, &of_log);
        if (fit)
            ct_trace_advice_bound(fit, &of_log);
    }
    if (c->has_metrics)
        ct_metrics_verdicts_find(&c->metrics, facts, &of_metrics);
    ct_verdicts_join(to, &of_log, source);
    ct_verdicts_join(to, &of_metrics, "the metrics");
}

// What the profile run of a server took, where a request failed later: needs another pass.
static uint64_t read_profile(const struct ct_summary *s) {
    struct ct_phase_times times;
    uint64_t bytes = 0;
    if (!s->crossing || s->crossing->phase.framework != CT_FRAMEWORK_VLLM || s->device < 0)
        return 0;
    const struct ct_phase_times_request request = {
        .phases = s->v->phases, .from_ns = 0, .to_ns = s->crossing->t_ns, .device = s->device};
    ct_question_phases(&times, s->v->trace, &request);
    for (size_t i = 0; i < times.count; i++)
        if (times.list[i].at.phase == CT_PHASE_PROFILE && times.list[i].rise_bytes > bytes)
            bytes = times.list[i].rise_bytes;
    ct_phase_times_free(&times);
    return bytes;
}

// How far the settings of a server could go, where a request of it failed: needs another pass.
// Returns 0 where that is not known, because it has not served.
static int read_fit(const struct ct_summary *s, struct ct_fit_vllm *to) {
    if (!s->crossing || s->device < 0 || s->device >= CT_DEVICES ||
        (s->crossing->phase.framework != CT_FRAMEWORK_VLLM &&
         !ct_facts_find_version(&s->facts, "vllm")))
        return 0;
    struct ct_fit_read *f = ct_heap_alloc_zeroed(1, sizeof *f);
    ct_fit_read_run(f, s->v);
    const struct ct_vllm_budget *b = &to->budget;
    const int is_known = ct_fit_read_vllm(f, s->device, to) && b->known && b->has_need;
    ct_fit_read_free(f);
    free(f);
    return is_known;
}

// What was captured before a request failed in the capture: needs another pass.
static struct ct_graph_captures read_graphs(const struct ct_summary *s) {
    if (!s->crossing || s->crossing->phase.phase != CT_PHASE_GRAPHS || s->device < 0)
        return (struct ct_graph_captures){0};
    return ct_graph_captures_read(s->v->trace, s->v->phases, s->device, s->crossing->t_ns);
}

// The failure where it is one of the device's memory, else the end.
static struct ct_moment find_moment(const struct ct_summary *s) {
    const int is_failure = s->crossing && ct_incidents_is_device_memory(s->crossing);
    if (s->has_moment && !is_failure)
        return s->moment;
    return ct_moment_find(&s->scan, s->v->trace, is_failure ? CT_MOMENT_OOM : CT_MOMENT_END,
                          s->device, NULL);
}

// Whether no other process was ever on the device: none was listed, and none held memory unlisted
// at the last reading.
static int is_alone(const struct ct_summary *s) {
    if (s->device < 0 || s->device >= CT_DEVICES)
        return 0;
    const struct ct_breakdown now = ct_replay_split(&s->scan.end, s->device);
    return (!now.split_known || now.others < s->capacity.bytes / 50) &&
           ct_neighbours_is_alone(&s->notes.neighbours, s->device);
}

static void read_verdicts(struct ct_summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_companions *companions = v->companions;
    struct ct_leaks leaks;
    struct ct_fit_vllm vllm;
    const int has_fit = !v->options->capacity && read_fit(s, &vllm);
    struct ct_trace_case c = {
        .trace = v->trace,
        .scan = &s->scan,
        .crossing = s->crossing,
        .live = &s->live,
        .account = &s->account,
        .siblings = v->processes ? &s->siblings : NULL,
        .neighbours = &s->notes.neighbours,
        .phases = v->phases,
        .facts = &s->facts,
        .log = companions && companions->has_log ? &companions->log : NULL,
        .device = s->device,
        .capacity = s->capacity.bytes,
        .budget = has_fit ? &vllm.budget : NULL,
        .fit = has_fit ? &vllm.fit : NULL,
        .profile_bytes = v->options->capacity || has_fit ? 0 : read_profile(s),
        .graphs = read_graphs(s),
        .earlier_ooms = ct_summary_count_overwritten_ooms(s),
        .is_complete =
            ct_trace_has_every_event(v->trace, ct_trace_count_lost(v->trace, s->scan.lost)),
    };
    if (v->options->capacity)
        return;
    if (s->device >= 0 && s->device < CT_MAX_DEVICES &&
        (ct_leak_verdict_is_possible(&c) ||
         ct_untracked_verdict_is_possible(&c, &s->notes.untracked[s->device]))) {
        const struct ct_moment moment = find_moment(s);
        const struct ct_leaks_request request = {.moment = &moment,
                                                 .from_ns = v->from_ns,
                                                 .device = s->device,
                                                 .rows = CT_ROWS_BY_BLOCK,
                                                 .phases = v->phases};
        ct_leaks_find(&leaks, v->sites, v->trace, &request);
        c.leaks = &leaks;
    }
    ct_trace_verdicts_find(&c, &s->verdicts);
    if (v->processes)
        ct_trace_verdicts_find(&c, &s->own);
    if (c.leaks) {
        s->leaks_count = ct_leaks_count(&leaks);
        ct_leaks_free(&leaks);
    }
    if (companions)
        ct_summary_join_companions(&s->verdicts, companions, &s->facts, s->capacity.bytes, c.fit,
                                   "the log");
    if (is_alone(s))
        ct_verdicts_drop(&s->verdicts, CT_SCENARIO_CO_TENANT);
}

// ---- all of it ----------------------------------------------------------------------------------

uint64_t ct_summary_moment_ns(const struct ct_summary *s) {
    if (s->has_moment)
        return s->moment.t_ns;
    return s->crossing ? s->crossing->t_ns : s->scan.device[s->device].peak_t_ns;
}

const struct ct_live_totals *ct_summary_live(const struct ct_summary *s) {
    return s->has_moment ? &s->live_then : &s->live;
}

const struct ct_torch_pool_totals *ct_summary_pool(const struct ct_summary *s) {
    if (s->has_moment)
        return &s->scan.device[s->device].pool_at_end;
    return s->crossing ? &s->crossing->pool : &s->scan.device[s->device].pool_at_peak;
}

static void begin_notes(struct ct_summary_notes *n, const struct ct_trace *t,
                        struct ct_phase_start_up *u) {
    *n = (struct ct_summary_notes){.start_up = u};
    for (int d = 0; d < CT_DEVICES; d++)
        ct_untracked_curve_begin(&n->untracked[d], t, d);
}

static void note_event(void *notes, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct ct_summary_notes *n = notes;
    (void)number;
    const int device = ct_event_device_index(e);
    if (CT_HAS(e, free_bytes))
        ct_untracked_curve_note(&n->untracked[device], r, device, e);
    ct_neighbours_note(&n->neighbours, r, device, e);
    if (n->start_up)
        ct_phase_start_up_note(n->start_up, r, e);
}

static void free_notes(struct ct_summary_notes *n) {
    ct_neighbours_free(&n->neighbours);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_untracked_curve_free(&n->untracked[d]);
}

// Makes the moment of --at the end of a pass.
static void end_at_moment(struct ct_summary *s, struct ct_scan_request *q) {
    s->has_moment = ct_view_scan_is_moment_asked(s->v->options);
    if (!s->has_moment)
        return;
    s->moment = ct_view_scan_asked_moment(s->v, NULL);
    q->to_ns = s->moment.t_ns;
    q->end_event = s->moment.event == UINT64_MAX ? 0 : s->moment.event + 1;
}

static void read_all(struct ct_summary *s, struct ct_view *v, struct ct_phase_start_up *u,
                     int with_end) {
    struct ct_scan_request request = ct_view_scan_request_pools(v);
    const struct ct_listener notes = {.self = &s->notes, .after = note_event};
    begin_notes(&s->notes, v->trace, u);
    end_at_moment(s, &request);
    ct_view_scan_run(v, &s->scan, &request, &notes);
    ct_neighbours_identify(&s->notes.neighbours, &v->trace->definitions);
    if (v->processes)
        ct_siblings_find_neighbours(&s->notes.neighbours, v->processes, v->process);
    if (with_end)
        read_end(s);
    s->has_moment = s->has_moment && !s->scan.exceeded; // a budget came first
    s->crossing = ct_scan_find_crossing(&s->scan);
    s->device = s->crossing ? s->crossing->device : ct_view_scan_main_device(v, &s->scan);
    if (s->has_moment && s->device >= 0)
        read_then(s);
    ct_replay_release(&s->scan.end); // another replay follows
    if (s->device >= 0) {
        s->capacity = ct_capacity_find(v->trace, &s->scan.end, s->device);
        read_live(s);
        read_moment(s);
        ct_site_groups_refine(v->sites, s->live.holdings, s->live.holding_count);
        const struct ct_device_memory memory = ct_scan_memory(&s->scan, s->device);
        // (at the crossing, it includes the reading that came with the OOM)
        s->live.split = s->crossing ? memory.crossing : memory.peak;
        ct_account_make(&s->account, v->phases, &s->live);
        ct_summary_set_siblings(v, &s->account, s->device, ct_summary_moment_ns(s), &s->siblings);
    }
    ct_facts_read(&s->facts, &v->trace->definitions);
    read_verdicts(s);
}

void ct_summary_read(struct ct_summary *s, struct ct_view *v) {
    *s = (struct ct_summary){.v = v};
    read_all(s, v, NULL, v->options->json);
}

void ct_summary_read_with(struct ct_summary *s, struct ct_view *v, struct ct_phase_start_up *u) {
    *s = (struct ct_summary){.v = v};
    read_all(s, v, u, 1);
}

void ct_summary_free(struct ct_summary *s) {
    free_notes(&s->notes);
    ct_verdicts_free(&s->verdicts);
    ct_verdicts_free(&s->own);
    ct_siblings_free(&s->siblings);
    ct_program_pools_free(&s->program_pools);
    ct_facts_free(&s->facts);
    ct_live_at_free(&s->live);
    ct_live_at_free(&s->live_then);
    ct_scan_free(&s->scan);
}

// ---- what the recorder noted --------------------------------------------------------------------

static int is_of_whole_trace(const struct ct_summary *s) {
    const struct ct_arguments *o = s->v->options;
    const struct ct_trace *t = s->v->trace;
    return o->device < 0 && !o->capacity && !s->has_moment && o->from.kind == CT_TIME_NONE &&
           o->to.kind == CT_TIME_NONE && !t->index.damages && !t->index.missing &&
           !t->missing_events;
}

// Whether a noted count or size contradicts that of the events, which may be of more chunks.
static int differs(uint64_t noted, uint64_t found, int is_whole) {
    return is_whole ? noted != found : noted > found;
}

static const char *compare_counts(const struct ct_summary *s, const struct ct_recorder_notes *n,
                                  int is_whole) {
    for (unsigned op = 0; op < CT_OPS_END; op++)
        if (op && differs(n->ops[op], s->scan.ops[op], is_whole))
            return "the numbers of events";
    if (differs(n->failed, s->scan.incidents.oom_count, is_whole))
        return "the failed requests";
    if (n->lost > s->scan.lost)
        return "the lost events";
    return NULL;
}

static const char *compare_device(const struct ct_summary *s, const struct ct_recorder_notes *n,
                                  int device, int is_whole) {
    const struct ct_noted_device *d = &n->device[device];
    const struct ct_device_scan *found = &s->scan.device[device];
    if (d->has_peak && differs(d->peak_bytes, found->peak_bytes, d->peak_is_exact))
        return "the peak of live memory";
    if (is_whole && n->live_is_known && !n->failed_frees &&
        d->live_bytes != s->scan.end.live.device[device].live_bytes)
        return "what is live at the end";
    return NULL;
}

static const char *compare(const struct ct_summary *s) {
    struct ct_recorder_notes *n = ct_heap_resize(NULL, 1, sizeof *n);
    ct_recorder_notes_read(n, s->v->trace, NULL);
    const int is_whole = ct_recorder_notes_are_whole(n, s->v->trace);
    const char *what = n->noted ? compare_counts(s, n, is_whole) : NULL;
    for (int i = 0; i < CT_DEVICES && n->noted && !what; i++)
        what = compare_device(s, n, i, is_whole);
    ct_recorder_notes_free(n);
    free(n);
    return what;
}

void ct_notes_compare_warn(const struct ct_summary *s) {
    const char *what = is_of_whole_trace(s) ? compare(s) : NULL;
    struct ct_error text;
    if (!what)
        return;
    (void)ct_error_set(&text, CT_EXIT_OK,
                       "warning: %.300s: what the recorder noted of %s differs from the events, "
                       "which count here; `cutrace-report info` names the chunks",
                       s->v->trace->source.name, what);
    ct_terminal_warn(text.text);
}

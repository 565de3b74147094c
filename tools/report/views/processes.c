// SPDX-License-Identifier: Apache-2.0
// Reads the traces three times, side by side where there are processors: the moment is known only
// when all were read, and what other processes held only when the states at it were.
#include "views/processes.h"

#include <string.h>
#include <sys/stat.h>

#include "answer/summary_read.h"
#include "base/workers.h"
#include "cli/progress.h"
#include "diagnose/text_verdicts.h"
#include "diagnose/verdicts.h"
#include "print/label.h"
#include "print/recorder_line.h"
#include "print/trace_state.h"
#include "processes/hosts.h"
#include "sites/site_groups.h"

enum { SMALL_BYTES = 256 << 10 }; // of all traces: too little for threads

int ct_processes_check_options(const struct ct_arguments *o, struct ct_error *error) {
    const char *option = NULL;
    for (int i = 0; i < o->path_count; i++)
        if (strcmp(o->paths[i], "-") == 0)
            return ct_error_set(error, CT_EXIT_USAGE,
                                "-: standard input is read once, and several traces twice; name "
                                "the file, or no other trace");
    if (o->device >= 0)
        option = "--device";
    else if (o->from.kind != CT_TIME_NONE)
        option = "--from";
    else if (o->to.kind != CT_TIME_NONE)
        option = "--to";
    else if (ct_view_scan_is_moment_asked(o))
        option = "--at";
    else if (o->capacity)
        option = "--capacity";
    if (!option)
        return 0;
    return ct_error_set(error, CT_EXIT_USAGE,
                        "%s is about one process, and several traces are one table; name one trace",
                        option);
}

static const char *describe_state(const struct ct_process *p, const struct ct_trace *t) {
    if (t->incomplete)
        return "INCOMPLETE";
    if (t->index.damages || t->index.missing)
        return "damaged";
    if (p->lost)
        return "events lost";
    if (!p->has_beginning)
        return "overwritten";
    if (t->running)
        return "recording";
    return t->ended ? "complete" : "killed";
}

static void keep_api(struct ct_process_shown *shown, const struct ct_view *v,
                     const struct ct_oom_event *crossing) {
    const struct ct_string *api = &v->trace->definitions.strings[crossing->api];
    if (crossing->op == CT_OP_BLOCK_OOM)
        (void)snprintf(shown->api, sizeof shown->api, "PyTorch");
    else
        ct_label_api(v, crossing->api, shown->api, sizeof shown->api);
    if (!api->length)
        return;
    shown->recorded_api = ct_heap_copy(api->at, api->length);
    shown->recorded_api_length = api->length;
}

static void keep_limits(struct ct_process_shown *shown, const struct ct_view *v, uint64_t lost) {
    char text[CT_COVERAGE_LIMITS];
    shown->is_limited = ct_coverage_limits_write(v, lost, text);
    shown->limits = ct_heap_copy_text(text);
}

static void keep_recorder_line(struct ct_process_shown *shown, const struct ct_view *v,
                               const struct ct_process *p) {
    char line[2048];
    if (ct_recorder_line_format(v, &p->crossing, p->is_crossing_retried, line, sizeof line))
        shown->recorder_line = ct_heap_copy_text(line);
}

// Keeps what the table says of a trace when it is closed again.
static void keep_state(struct ct_processes_shown *s, size_t i, const struct ct_view *v) {
    struct ct_process_shown *shown = &s->traces[i];
    const struct ct_process *p = &s->all.list[i];
    char text[400];
    shown->state = p->is_usable ? describe_state(p, v->trace) : NULL;
    shown->missing = ct_trace_state_missing(v->trace);
    shown->is_estimate = ct_trace_state_estimate(v->trace, text, sizeof text);
    if (v->trace->incomplete || (s->options->strict && !ct_trace_is_intact(v->trace)))
        shown->status = CT_EXIT_INCOMPLETE;
    if (p->is_usable)
        keep_limits(shown, v, p->lost);
    if (p->has_crossing) {
        keep_api(shown, v, &p->crossing);
        keep_recorder_line(shown, v, p);
    }
}

static void keep_error(struct ct_processes_shown *s, size_t i, const struct ct_error *e) {
    const size_t n = strlen(s->traces[i].path);
    const char *text = e->text;
    if (strncmp(text, s->traces[i].path, n) == 0 && text[n] == ':')
        text += n + 1 + strspn(text + n + 1, " ");
    s->traces[i].status = (int)e->status;
    s->traces[i].error = ct_heap_copy_text(text);
    s->all.list[i].is_usable = 0;
}

// Finds the process that has the same trace, which counts once. SIZE_MAX: there is none.
static size_t find_same(const struct ct_processes *all, size_t i, uint64_t trace_id) {
    for (size_t k = 0; k < i; k++)
        if (all->list[k].is_usable && all->list[k].trace_id == trace_id)
            return k;
    return SIZE_MAX;
}

static void scan(struct ct_processes_shown *s, size_t i, struct ct_view *v,
                 void (*warn)(const struct ct_view *)) {
    struct ct_process *p = &s->all.list[i];
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    if (warn)
        warn(v);
    p->is_usable = 1;
    ct_process_scan(p, v->trace, &request);
    keep_state(s, i, v);
}

// Leaves of a copy what is said of every trace.
static void drop_copy(struct ct_processes_shown *s, size_t i, size_t same) {
    struct ct_process_shown *shown = &s->traces[i];
    ct_process_free(&s->all.list[i]);
    s->all.list[i].same_as = same;
    s->all.list[i].knowledge = CT_PROCESS_UNKNOWN;
    free(shown->limits);
    free(shown->recorded_api);
    free(shown->recorder_line);
    shown->limits = shown->recorded_api = shown->recorder_line = NULL;
    shown->recorded_api_length = 0;
    shown->api[0] = '\0';
    shown->state = NULL;
    shown->is_limited = 0;
}

// Of two copies the one with more events counts. After the scans of all.
static void find_copies(struct ct_processes_shown *s) {
    struct ct_process *list = s->all.list;
    for (size_t i = 0; i < s->all.count; i++) {
        const size_t same = list[i].is_usable ? find_same(&s->all, i, list[i].trace_id) : SIZE_MAX;
        if (same == SIZE_MAX)
            continue;
        if (list[i].events <= list[same].events) {
            drop_copy(s, i, same);
            continue;
        }
        drop_copy(s, same, i);
        for (size_t k = 0; k < i; k++)
            if (list[k].same_as == same)
                list[k].same_as = i;
    }
}

static void read_state(struct ct_processes_shown *s, size_t i, struct ct_view *v) {
    uint64_t last;
    const uint64_t t_ns = ct_processes_moment_of(&s->all, i, &last);
    if (v->trace->index.trace_id != s->all.list[i].trace_id)
        return;
    struct ct_phases phases;
    ct_phases_init(&phases, &v->trace->definitions, s->rules);
    ct_process_read_state(&s->all.list[i], v->trace, &phases, t_ns, last);
    ct_phases_free(&phases);
}

// The stacks of a trace end with it: what they name becomes a part of the text.
static void name_stacks(struct ct_verdicts *l, const struct ct_view *v) {
    char label[400], *text;
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->list[i].evidence_count; k++) {
            struct ct_evidence *e = &l->list[i].evidence[k];
            if (!e->stack)
                continue;
            ct_site_groups_label(v->sites, CT_HOLDING_ALLOCATION, e->stack, label, sizeof label);
            if (asprintf(&text, "%s: %s", e->text, label) < 0)
                ct_heap_exhausted();
            free(e->text);
            e->text = text;
            e->stack = 0;
        }
}

// The capacity of the device that a process uses; 0: not known, or it uses several.
static uint64_t find_capacity(const struct ct_processes *all, const struct ct_process *p) {
    const int gpu = p->device_count == 1 ? p->devices[0].gpu : -1;
    return gpu >= 0 ? all->gpus[gpu].total : 0;
}

// What the log says of a process: its own lines, where these are known, else all.
static struct ct_companions read_companions(const struct ct_processes_shown *s, size_t i) {
    struct ct_companions c = s->companions;
    const uint64_t capacity = find_capacity(&s->all, &s->all.list[i]);
    if (ct_log_owners_has(&s->owners, i))
        ct_log_owners_read(&s->owners, &s->companions.log, i, &c.log);
    c.log.capacity = capacity <= INT64_MAX ? (int64_t)capacity : 0;
    return c;
}

// Joins what the process's own lines of the log say.
static void join_own_lines(const struct ct_processes_shown *s, size_t i, struct ct_companions *c,
                           struct ct_verdicts *list) {
    struct ct_verdicts of_log = {0};
    if (!ct_log_owners_has(&s->owners, i))
        return;
    ct_text_verdicts_find(&c->log, &of_log);
    ct_verdicts_join(list, &of_log, "the log");
    ct_text_facts_free(&c->log);
}

static void judge(struct ct_processes_shown *s, size_t i, struct ct_view *v,
                  struct ct_verdicts *list) {
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_summary summary;
    struct ct_companions companions;
    if (v->trace->index.trace_id != s->all.list[i].trace_id || ct_trace_state_is_unknown(v->trace))
        return;
    ct_call_sites_init(&sites, &v->trace->definitions);
    ct_phases_init(&phases, &v->trace->definitions, s->rules);
    v->sites = &sites;
    v->phases = &phases;
    companions = read_companions(s, i);
    v->companions = &companions;
    v->processes = &s->all;
    v->process = i;
    ct_summary_read(&summary, v);
    name_stacks(&summary.own, v);
    *list = summary.own;
    summary.own = (struct ct_verdicts){0};
    ct_summary_free(&summary);
    ct_phases_free(&phases);
    ct_call_sites_free(&sites);
    join_own_lines(s, i, &companions, list);
}

enum pass { SCAN, READ_STATE, JUDGE };

// What a thread leaves of a trace that it has visited.
struct visit {
    int has_failed; // the trace cannot be read:
    struct ct_error error;
    struct ct_buffer warnings;
    struct ct_verdicts verdicts; // of the last pass
    struct ct_progress_part progress;
};

// One pass over all traces.
struct round {
    struct ct_processes_shown *s;
    enum pass pass;
    void (*warn)(const struct ct_view *);
    struct visit *visits; // in the order of the traces
};

// Changes nothing of other traces: several threads do this.
static void visit(void *user, size_t i) {
    const struct round *r = user;
    struct ct_processes_shown *s = r->s;
    struct visit *of = &r->visits[i];
    struct ct_trace trace = {.no_journal = s->options->no_journal,
                             .progress = ct_progress_report,
                             .progress_user = &of->progress};
    struct ct_view v = {.options = s->options,
                        .terminal = s->terminal,
                        .trace = &trace,
                        .out = s->out,
                        .to_ns = UINT64_MAX};
    if (r->pass != SCAN && !s->all.list[i].is_usable)
        return;
    ct_terminal_keep_warnings(&of->warnings);
    of->has_failed = ct_trace_open(&trace, s->traces[i].path, &of->error) != 0;
    if (of->has_failed && (r->warn || r->pass != SCAN))
        ct_terminal_warn(of->error.text);
    else if (!of->has_failed && r->pass == SCAN)
        scan(s, i, &v, r->warn);
    else if (!of->has_failed && r->pass == READ_STATE)
        read_state(s, i, &v);
    else if (!of->has_failed)
        judge(s, i, &v, &of->verdicts);
    ct_terminal_keep_warnings(NULL);
    ct_trace_close(&trace);
}

// Whether all traces together are read before threads would have started. A trace in a zip file has
// a name, and none here.
static int are_small(const struct ct_processes_shown *s) {
    off_t left = SMALL_BYTES;
    struct stat st;
    for (size_t i = 0; i < s->all.count && left >= 0; i++)
        left -= stat(s->traces[i].path, &st) == 0 ? st.st_size : SMALL_BYTES;
    return left > 0;
}

// `verdicts`: where those of each trace go, in the last pass.
static void visit_all(struct ct_processes_shown *s, enum pass pass,
                      void (*warn)(const struct ct_view *), struct ct_verdicts *verdicts) {
    const size_t n = s->all.count;
    struct round r = {.s = s, .pass = pass, .warn = warn};
    r.visits = ct_heap_alloc_zeroed(n, sizeof *r.visits);
    for (size_t i = 0; i + 1 < n; i++)
        r.visits[i].progress.next = &r.visits[i + 1].progress;
    ct_progress_begin_parts(n ? &r.visits[0].progress : NULL);
    if (are_small(s))
        for (size_t i = 0; i < n; i++)
            visit(&r, i);
    else
        ct_workers_run(n, visit, &r);
    ct_progress_begin_parts(NULL);
    ct_progress_clear();
    for (size_t i = 0; i < n; i++) {
        ct_terminal_print_kept(&r.visits[i].warnings);
        if (r.visits[i].has_failed)
            keep_error(s, i, &r.visits[i].error);
        if (verdicts)
            verdicts[i] = r.visits[i].verdicts;
    }
    free(r.visits);
}

// Whether a part of a log says more than that nothing of its own failed.
static int is_problem(const struct ct_text_facts *f) {
    struct ct_verdicts of_log = {0};
    ct_text_verdicts_find(f, &of_log);
    const int is = of_log.count && of_log.list[0].scenario != CT_SCENARIO_NONE;
    ct_verdicts_free(&of_log);
    return is;
}

// Joins the metrics, and what the log says in lines that are of no process alone.
static void join_shared(struct ct_processes_shown *s) {
    const struct ct_facts unknown = {.program = NULL};
    struct ct_companions c = s->companions;
    if (s->owners.owned)
        ct_log_owners_read(&s->owners, &s->companions.log, CT_LOG_SHARED, &c.log);
    c.has_log = c.has_log && (!s->owners.owned || is_problem(&c.log));
    ct_summary_join_companions(&s->verdicts, &c, &unknown, 0, NULL,
                               "the log (whose line is not known)");
    if (s->owners.owned)
        ct_text_facts_free(&c.log);
}

static void judge_all(struct ct_processes_shown *s) {
    struct ct_verdicts *lists = ct_heap_alloc_zeroed(s->all.count, sizeof *lists);
    if (s->companions.has_log)
        ct_log_owners_find(&s->owners, &s->companions.log_lines, &s->all);
    visit_all(s, JUDGE, NULL, lists);
    ct_process_verdicts_join(&s->verdicts, lists, &s->all);
    join_shared(s);
    free(lists);
}

static void read_all(struct ct_processes_shown *s, void (*warn)(const struct ct_view *)) {
    for (size_t i = 0; i < s->all.count; i++) {
        s->traces[i].path = s->options->paths[i];
        s->all.list[i].same_as = SIZE_MAX;
        s->all.list[i].knowledge = CT_PROCESS_UNKNOWN;
    }
    visit_all(s, SCAN, warn, NULL);
    find_copies(s);
    ct_processes_find_moment(&s->all);
    visit_all(s, READ_STATE, warn, NULL);
    ct_processes_sum(&s->all);
    ct_jobs_find(s->all.list, s->all.count);
    judge_all(s);
}

int ct_processes_read(struct ct_processes_shown *s, const struct ct_arguments *o,
                      const struct ct_terminal *terminal, const struct ct_phase_rules *rules,
                      void (*warn)(const struct ct_view *), struct ct_error *error) {
    const size_t n = (size_t)o->path_count;
    *s = (struct ct_processes_shown){
        .options = o, .terminal = terminal, .rules = rules, .out = stdout};
    if (ct_companions_read(o, &s->companions, error))
        return -1;
    s->all.list = ct_heap_alloc_zeroed(n, sizeof *s->all.list);
    s->all.count = n;
    s->traces = ct_heap_alloc_zeroed(n, sizeof *s->traces);
    read_all(s, warn);
    return 0;
}

int ct_processes_print(struct ct_processes_shown *s) {
    int status = CT_EXIT_OK;
    if (s->options->json) {
        ct_processes_json_print(s);
    } else {
        s->out = ct_terminal_open_text(s->terminal, stdout);
        if (s->options->command == CT_COMMAND_explain)
            ct_processes_text_explain(s);
        else
            ct_processes_text_print(s);
        fclose(s->out);
    }
    for (size_t i = 0; i < s->all.count; i++)
        status = s->traces[i].status > status ? s->traces[i].status : status;
    return status;
}

void ct_processes_close(struct ct_processes_shown *s) {
    for (size_t i = 0; i < s->all.count; i++) {
        free(s->traces[i].error);
        free(s->traces[i].limits);
        free(s->traces[i].recorded_api);
        free(s->traces[i].recorder_line);
    }
    free(s->traces);
    ct_verdicts_free(&s->verdicts);
    ct_log_owners_free(&s->owners);
    ct_companions_free(&s->companions);
    ct_processes_free(&s->all);
}

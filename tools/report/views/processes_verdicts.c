// SPDX-License-Identifier: Apache-2.0
// Each verdict names the processes that it is about; times of its evidence are those of the first
// one.
#include "views/processes.h"

#include <inttypes.h>

#include "base/wrap.h"
#include "print/label.h"
#include "print/verdict.h"

// Whether a trace before it is of the same process.
static int is_named_before(const struct ct_processes_shown *s, const struct ct_verdict *v,
                           size_t i) {
    for (size_t k = 0; k < i; k++)
        if (s->all.list[v->processes[k]].first_trace == s->all.list[v->processes[i]].first_trace)
            return 1;
    return 0;
}

static size_t count_processes(const struct ct_processes_shown *s, const struct ct_verdict *v) {
    size_t n = 0;
    for (size_t i = 0; i < v->process_count; i++)
        n += !is_named_before(s, v, i);
    return n;
}

// Prints "rank 1 (pid 12)", or "3 of 4 processes: rank 0 (pid 11), rank 1 (pid 12), 1 more".
static void print_names(const struct ct_processes_shown *s, const struct ct_verdict *v,
                        size_t most) {
    char name[CT_PROCESS_NAME];
    const size_t n = count_processes(s, v);
    size_t shown = 0;
    if (!n)
        fputs("no process alone", s->out);
    if (n > 1)
        fprintf(s->out, "%zu of %zu%s: ", n, ct_processes_rows_count_processes(s),
                most > 1 ? " processes" : ", first");
    for (size_t i = 0; i < v->process_count && shown < most; i++) {
        if (is_named_before(s, v, i))
            continue;
        ct_process_name(&s->all.list[v->processes[i]], name);
        fprintf(s->out, "%s%s", shown++ ? ", " : "", name);
    }
    if (n > most && most > 1)
        fprintf(s->out, ", %zu more", n - most);
}

// Prints ", GPU 0" of a verdict that is about one process.
static void print_gpu(const struct ct_processes_shown *s, const struct ct_verdict *v) {
    if (v->process_count != 1 || v->device < 0)
        return;
    const struct ct_process *p = &s->all.list[v->processes[0]];
    for (size_t k = 0; k < p->device_count; k++)
        if (p->devices[k].ordinal == v->device)
            fprintf(s->out, ", GPU %s", ct_processes_rows_gpu(&s->all, p->devices[k].gpu).text);
}

void ct_processes_verdicts_print_first(const struct ct_processes_shown *s,
                                       enum ct_processes_verdict_length length) {
    enum { MOST_NAMES = 2 };
    const struct ct_verdict *first = s->verdicts.count ? &s->verdicts.list[0] : NULL;
    struct ct_view v = ct_processes_view(s);
    if (!first || first->scenario == CT_SCENARIO_NONE || first->scenario == CT_SCENARIO_RECOVERED)
        return;
    fprintf(s->out, "  %-8s " CT_WRAP_HANG "%s; ", "verdict", ct_verdict_name(first).text);
    print_names(s, first, length == CT_PROCESSES_NAME ? 1 : MOST_NAMES);
    if (length == CT_PROCESSES_WHOLE)
        fprintf(s->out, ": %s", first->summary);
    putc('\n', s->out);
    if (length != CT_PROCESSES_NAME)
        ct_verdicts_print_change(&v, first);
}

static void print_evidence(const struct ct_processes_shown *s, const struct ct_verdict *v,
                           const struct ct_evidence *e) {
    fprintf(s->out, "  evidence  " CT_WRAP_HANG "%s", e->text);
    if (e->event_known && v->process_count) {
        const struct ct_process *p = &s->all.list[v->processes[0]];
        const uint64_t start = p->start_known ? p->start_ns : p->t_first_ns;
        fprintf(s->out, " (event %" PRIu64 " at %s)", e->event,
                ct_human_elapsed(e->t_ns > start ? e->t_ns - start : 0).text);
    }
    putc('\n', s->out);
}

static void print_full(const struct ct_processes_shown *s, const struct ct_verdict *v,
                       int is_first) {
    enum { MOST_NAMES = 8 };
    const struct ct_terminal *t = s->terminal;
    struct ct_view view = ct_processes_view(s);
    fprintf(s->out, "%s%s%s: " CT_WRAP_HANG "%s (%s)\n", is_first ? t->bold : "",
            is_first ? "verdict" : "also possible", is_first ? t->reset : "",
            ct_scenario_title(v->scenario), ct_verdict_name(v).text);
    fprintf(s->out, "  of        " CT_WRAP_HANG);
    print_names(s, v, MOST_NAMES);
    print_gpu(s, v);
    fprintf(s->out, "\n  %s\n", v->summary);
    for (size_t i = 0; i < v->evidence_count; i++)
        print_evidence(s, v, &v->evidence[i]);
    ct_verdicts_print_end(&view, v);
}

void ct_processes_verdicts_print(const struct ct_processes_shown *s, size_t most) {
    for (size_t i = 0; i < s->verdicts.count && i < most; i++)
        print_full(s, &s->verdicts.list[i], i == 0);
}

// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_verdicts.h"

#include <inttypes.h>

#include "base/heap.h"
#include "diagnose/text_start.h"

// How much an out-of-memory message tells: its traceback first, then its figures.
static int weigh_oom(const struct ct_text_fact *e) {
    int weight = ct_text_where_is_known(&e->where) ? 100 : e->has_traceback ? 30 : 0;
    for (int i = 0; i < CT_TEXT_FIELDS; i++)
        weight += e->values[i].known;
    return weight +
           (e->kind == CT_TEXT_KIND_TORCH_OOM || e->kind == CT_TEXT_KIND_ASYNC_OOM ? 50 : 0);
}

const struct ct_text_fact *ct_text_verdicts_main_oom(const struct ct_text_facts *f) {
    const struct ct_text_fact *best = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const struct ct_text_fact *e = &f->list[i];
        const int is_better = !best || best->kind == CT_TEXT_KIND_GPU_OOM ||
                              (e->kind != CT_TEXT_KIND_GPU_OOM && weigh_oom(e) > weigh_oom(best));
        if (ct_template_role(e->kind) == CT_TEXT_ROLE_OOM && is_better)
            best = e;
    }
    return best;
}

// Errors that name their cause come before messages that only say that memory ran out; errors of
// another kind after these; what was under way at an error, last.
static int weigh_error(const struct ct_text_fact *e) {
    switch (e->kind) {
    case CT_TEXT_KIND_CAPTURE_FAILED:
        return 0;
    case CT_TEXT_KIND_NOT_MEMORY:
        return 1;
    case CT_TEXT_KIND_HOST_KERNEL:
    case CT_TEXT_KIND_HOST_CGROUP:
    case CT_TEXT_KIND_HOST_RAY:
    case CT_TEXT_KIND_HOST_TORCH:
    case CT_TEXT_KIND_HOST_SHM:
    case CT_TEXT_KIND_WARMUP_FAILED:
        return 2;
    default:
        return 3;
    }
}

// Whether a message of memory that ran out may say more than the error.
static int is_general(const struct ct_text_fact *error) {
    const int weight = weigh_error(error);
    return weight && weight < 3;
}

// Of several devices of which a server wants the same the one with the least decides.
static int has_less_free(const struct ct_text_fact *e, const struct ct_text_fact *than) {
    return e->kind == CT_TEXT_KIND_LESS_THAN_DESIRED && than->kind == e->kind &&
           e->values[CT_TEXT_FREE].value < than->values[CT_TEXT_FREE].value;
}

// The error that the text is about: the one that names a cause, or else the first; NULL: it has
// none.
static const struct ct_text_fact *find_main_error(const struct ct_text_facts *f) {
    const struct ct_text_fact *best = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const struct ct_text_fact *e = &f->list[i];
        if (ct_template_role(e->kind) == CT_TEXT_ROLE_ERROR &&
            (!best || weigh_error(e) > weigh_error(best) || has_less_free(e, best)))
            best = e;
    }
    return best;
}

// ---- a text without an error --------------------------------------------------------------------

// Verdicts that no single line of the text decides.
struct whole {
    const struct ct_text_facts *f;
    struct ct_figures n;
    struct ct_rule_source rules;
};

static int add(const struct whole *w, enum ct_rule rule) {
    return ct_rule_add(&w->rules, rule) != NULL;
}

static void advise_more(const void *self, struct ct_verdict *v) {
    const struct whole *w = self;
    ct_text_advice_budget(w->f, v, CT_TEXT_MORE, "give the KV cache more memory");
}

static void advise_requests(const void *self, struct ct_verdict *v) {
    const struct whole *w = self;
    ct_text_advice_requests(w->f, v);
}

static int judge_load(struct whole *w) {
    const struct ct_text_load *s = &w->f->load;
    struct ct_figures *n = &w->n;
    const int said = s->preempted_line != 0;
    if (said) {
        n->preempted_line = (int64_t)s->preempted_line;
        n->preempted_lines = (int64_t)s->preempted_lines;
        n->count = s->preemptions > 0 ? s->preemptions : -1;
    }
    if (s->lines) {
        n->line = (int64_t)s->worst_line;
        n->usage = s->max_usage;
        n->waiting = s->max_waiting;
    }
    n->first_hits = s->first_hits;
    n->hits = s->last_hits;
    if (said || s->shrinking_lines >= 2)
        return ct_rule_add_sure(&w->rules, CT_RULE_TEXT_PREEMPTION, said ? 0.9 : 0.6) != NULL;
    return s->full_lines >= 2 && s->first_hits > 0 && s->last_hits < s->first_hits / 2 &&
           add(w, CT_RULE_TEXT_PREFIX_CACHE);
}

// Whether nothing that is known follows: then the text does not show that the program went on.
static int is_last(const struct ct_text_facts *f, const struct ct_text_fact *e) {
    return e == &f->list[f->count - 1] && f->lines - e->line < 3;
}

// A refusal that the program expects, and nothing failed: PyTorch's allocator empties its cache and
// asks again, llama.cpp tries a smaller buffer.
static int judge_recovered(struct whole *w) {
    const struct ct_text_fact *e = ct_text_facts_find(w->f, CT_TEXT_KIND_DRIVER_REFUSED);
    if (!e)
        return 0;
    ct_text_figures_read(&w->n, e);
    w->n.tried = w->n.tried > 0 ? w->n.tried : -1;
    w->rules.device = ct_text_device(e);
    return ct_rule_add_sure(&w->rules, CT_RULE_TEXT_RECOVERED, is_last(w->f, e) ? 0.5 : 0.7) !=
           NULL;
}

// A server's log that ends while it starts: whether it went on, was ended or failed is not said.
static int judge_unfinished(struct whole *w) {
    const struct ct_text_facts *f = w->f;
    const struct ct_text_fact *last = NULL;
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].kind == CT_TEXT_KIND_STARTED || f->list[i].kind == CT_TEXT_KIND_STOPPED)
            return 0;
        if (ct_template_where(f->list[i].kind).phase != CT_PHASE_UNKNOWN)
            last = &f->list[i];
    }
    // (what comes after the capture of graphs writes no line in old versions)
    enum { MORE_LINES = 60 }; // by then a program has gone on
    if (!last || f->load.lines || f->lines - last->line > MORE_LINES ||
        ct_template_where(last->kind).phase == CT_PHASE_WARMUP)
        return 0;
    w->n.line = (int64_t)last->line;
    return add(w, CT_RULE_TEXT_UNFINISHED);
}

static void judge_healthy(struct whole *w) {
    enum { A_FEW_LINES = 5 }; // a log, not a question
    const struct ct_text_facts *f = w->f;
    const int is_log = ct_text_facts_find_role(f, CT_TEXT_ROLE_INFO) ||
                       ct_text_facts_find_role(f, CT_TEXT_ROLE_PROGRESS) || f->load.lines;
    w->n.lines = (int64_t)f->lines;
    w->n.line = (int64_t)f->says_oom;
    if (is_log)
        (void)add(w, CT_RULE_TEXT_LOG);
    else if (!f->says_failure && f->lines >= A_FEW_LINES)
        (void)add(w, CT_RULE_TEXT_LINES);
    else if (f->says_oom) // no line is one that is known: words decide
        (void)add(w, CT_RULE_TEXT_SAYS_OOM);
    else
        (void)add(w, !f->says_failure ? CT_RULE_TEXT_NO_FAILURE
                     : f->found       ? CT_RULE_TEXT_SAYS_FAILURE
                                      : CT_RULE_TEXT_UNKNOWN);
}

// After a shutdown that somebody asked for vLLM reports, at times, that its engine is dead: it
// ended that itself.
static const struct ct_text_fact *find_wrapper(const struct ct_text_facts *f) {
    const struct ct_text_fact *stopped = ct_text_facts_find(f, CT_TEXT_KIND_STOPPED),
                              *report = ct_text_facts_find(f, CT_TEXT_KIND_REPORT_FAILED);
    if (report)
        return report;
    for (size_t i = 0; i < f->count; i++)
        if (ct_template_role(f->list[i].kind) == CT_TEXT_ROLE_WRAPPER &&
            !(f->list[i].kind == CT_TEXT_KIND_ENGINE_DEAD && stopped &&
              stopped->line < f->list[i].line))
            return &f->list[i];
    return NULL;
}

// A log that says itself that nothing is left for the KV cache, without the error that follows.
static int judge_no_cache(const struct ct_text_facts *f, struct ct_verdicts *v) {
    struct ct_text_start s;
    ct_text_start_find(f, &s);
    if (!s.kv_bytes.known || s.kv_bytes.value > 0)
        return 0;
    const struct ct_text_fact said = {.kind = CT_TEXT_KIND_NO_CACHE_BLOCKS,
                                      .line = s.kv_bytes.line};
    ct_text_errors_judge(f, &said, NULL, v);
    return 1;
}

static void judge_no_error(const struct ct_text_facts *f, struct ct_verdicts *v) {
    static const struct ct_rule_step steps[] = {
        {"more", advise_more}, {"requests", advise_requests}, {NULL, NULL}};
    const struct ct_text_fact *wrapper = find_wrapper(f);
    struct whole w = {.f = f};
    ct_figures_clear(&w.n);
    w.rules =
        (struct ct_rule_source){.to = v, .device = -1, .figures = &w.n, .steps = steps, .self = &w};
    if (!f->lines)
        (void)add(&w, CT_RULE_TEXT_EMPTY);
    else if (wrapper)
        ct_text_errors_judge(f, wrapper, NULL, v);
    else if (!judge_no_cache(f, v) && !judge_load(&w) && !judge_recovered(&w) &&
             !judge_unfinished(&w))
        judge_healthy(&w);
}

// "line 25: ..." becomes "line 25 (11-23 20:25:27): ..." where the line says when it was written.
static void add_stamp(const struct ct_text_facts *f, struct ct_evidence *e) {
    uint64_t line;
    int end = 0;
    char *text;
    if (sscanf(e->text, "line %" SCNu64 "%n", &line, &end) != 1)
        return;
    const char *stamp = ct_text_facts_find_stamp(f, line);
    if (!stamp)
        return;
    if (asprintf(&text, "%.*s (%s)%s", end, e->text, stamp, e->text + end) < 0)
        ct_heap_exhausted();
    free(e->text);
    e->text = text;
}

static void add_stamps(const struct ct_text_facts *f, struct ct_verdicts *v) {
    for (size_t i = 0; i < v->count; i++)
        for (size_t k = 0; k < v->list[i].evidence_count; k++)
            add_stamp(f, &v->list[i].evidence[k]);
}

// Errors that do not matter beside memory of a device that ran out: what has nothing to do with
// memory, and C++'s std::bad_alloc, which libraries of CUDA raise for the device, too.
static int is_beside(const struct ct_text_fact *error) {
    return error->kind == CT_TEXT_KIND_NOT_MEMORY ||
           (error->kind == CT_TEXT_KIND_HOST_TORCH && !error->values[CT_TEXT_TRIED].known);
}

void ct_text_verdicts_find(const struct ct_text_facts *f, struct ct_verdicts *v) {
    const struct ct_text_fact *oom = ct_text_verdicts_main_oom(f), *error = find_main_error(f);
    if (error && oom &&
        ((oom->kind == CT_TEXT_KIND_GPU_OOM && weigh_error(error)) ||
         (error->kind == CT_TEXT_KIND_NOT_MEMORY && oom->kind == CT_TEXT_KIND_NCCL_CUDA)))
        oom = NULL; // the error says more, or names one that is not about memory
    if (error && oom && is_beside(error))
        error = NULL;
    if (error)
        ct_text_errors_judge(f, error, oom, v);
    if (oom && (!error || is_general(error)))
        ct_text_oom_judge(f, oom, v);
    if (!error && !oom)
        judge_no_error(f, v);
    add_stamps(f, v);
    ct_verdicts_sort(v);
}

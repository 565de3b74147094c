// SPDX-License-Identifier: Apache-2.0
#include "diagnose/verdicts.h"

#include <stdarg.h>

#include "base/heap.h"
#include "processes/processes.h"

// ---- one list -----------------------------------------------------------------------------------

enum { SAYS_NOTHING = 1, HEALTHY = 2, UNASKED = 4 };

static const struct {
    const char *name, *title;
    int traits;
} scenarios[] = {
#define CT_SCENARIO(ID, name, title, traits) {name, title, traits},
#include "diagnose/scenarios.def"
};

static int is(int trait, const struct ct_verdict *v) {
    return (scenarios[v->scenario].traits & trait) != 0;
}

const char *ct_scenario_name(enum ct_scenario scenario) {
    return scenarios[scenario].name;
}

const char *ct_scenario_title(enum ct_scenario scenario) {
    return scenarios[scenario].title;
}

__attribute__((format(printf, 1, 0))) static char *print_list(const char *format,
                                                              va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        ct_heap_exhausted();
    return text;
}

// Makes a text of the arguments after `format`.
#define PRINT(to, format)                  \
    do {                                   \
        va_list list;                      \
        va_start(list, format);            \
        (to) = print_list((format), list); \
        va_end(list);                      \
    } while (0)

const char *ct_sureness_name(double confidence) {
    return confidence >= 0.84 ? "certain" : confidence >= 0.65 ? "likely" : "possible";
}

const char *ct_verdict_sureness(const struct ct_verdict *v) {
    return is(SAYS_NOTHING, v) ? NULL : ct_sureness_name(v->confidence);
}

struct ct_verdict_name ct_verdict_name(const struct ct_verdict *v) {
    const char *sureness = ct_verdict_sureness(v);
    struct ct_verdict_name n;
    (void)snprintf(n.text, sizeof n.text, "%s%s%s", ct_scenario_name(v->scenario),
                   sureness ? ", " : "", sureness ? sureness : "");
    return n;
}

struct ct_verdict *ct_verdicts_add(struct ct_verdicts *v, enum ct_scenario scenario,
                                   double confidence, int device, const char *summary, ...) {
    CT_HEAP_GROW(v->list, v->count, v->room);
    struct ct_verdict *made = &v->list[v->count++];
    *made = (struct ct_verdict){.scenario = scenario, .confidence = confidence, .device = device};
    PRINT(made->summary, summary);
    return made;
}

static struct ct_evidence *add_evidence(struct ct_verdict *v) {
    CT_HEAP_GROW(v->evidence, v->evidence_count, v->evidence_room);
    struct ct_evidence *made = &v->evidence[v->evidence_count++];
    *made = (struct ct_evidence){0};
    return made;
}

struct ct_evidence *ct_verdict_add_event(struct ct_verdict *v, uint64_t event, uint64_t t_ns,
                                         const char *text, ...) {
    struct ct_evidence *e = add_evidence(v);
    e->event_known = 1;
    e->event = event;
    e->t_ns = t_ns;
    PRINT(e->text, text);
    return e;
}

struct ct_evidence *ct_verdict_add_text(struct ct_verdict *v, const char *text, ...) {
    struct ct_evidence *e = add_evidence(v);
    PRINT(e->text, text);
    return e;
}

void ct_evidence_set_bytes(struct ct_evidence *e, uint64_t bytes) {
    e->bytes_known = 1;
    e->bytes = bytes;
}

struct ct_advice *ct_verdict_add_advice(struct ct_verdict *v, const char *text, ...) {
    CT_HEAP_GROW(v->advice, v->advice_count, v->advice_room);
    struct ct_advice *a = &v->advice[v->advice_count++];
    *a = (struct ct_advice){0};
    PRINT(a->text, text);
    return a;
}

static void set(char **to, const char *text) {
    free(*to);
    *to = text && *text ? ct_heap_copy_text(text) : NULL;
}

void ct_advice_set(struct ct_advice *a, const char *flag, const char *from, const char *to,
                   const char *versions) {
    set(&a->flag, flag);
    set(&a->from, from);
    set(&a->to, to);
    set(&a->versions, versions);
}

void ct_verdict_add_setting(struct ct_verdict *v, const char *flag, const char *from,
                            const char *to, const char *versions, const char *text, ...) {
    char *made;
    PRINT(made, text);
    ct_advice_set(ct_verdict_add_advice(v, "%s", made), flag, from, to, versions);
    free(made);
}

void ct_verdict_set_refuted_by(struct ct_verdict *v, const char *text, ...) {
    free(v->refuted_by);
    PRINT(v->refuted_by, text);
}

struct ct_verdict *ct_verdicts_find(const struct ct_verdicts *v, enum ct_scenario scenario) {
    for (size_t i = 0; i < v->count; i++)
        if (v->list[i].scenario == scenario)
            return &v->list[i];
    return NULL;
}

// Insertion keeps the order of equals, and there are a handful of verdicts.
void ct_verdicts_sort(struct ct_verdicts *v) {
    for (size_t i = 1; i < v->count; i++) {
        const struct ct_verdict moved = v->list[i];
        size_t at = i;
        for (; at && v->list[at - 1].confidence < moved.confidence; at--)
            v->list[at] = v->list[at - 1];
        v->list[at] = moved;
    }
}

static void free_advice(struct ct_advice *a) {
    ct_advice_set(a, NULL, NULL, NULL, NULL);
    free(a->text);
}

static void free_verdict(struct ct_verdict *v) {
    for (size_t i = 0; i < v->evidence_count; i++)
        free(v->evidence[i].text);
    for (size_t i = 0; i < v->advice_count; i++)
        free_advice(&v->advice[i]);
    free(v->evidence);
    free(v->advice);
    free(v->summary);
    free(v->refuted_by);
    free(v->processes);
}

void ct_verdicts_drop(struct ct_verdicts *v, enum ct_scenario scenario) {
    struct ct_verdict *one = ct_verdicts_find(v, scenario);
    if (!one)
        return;
    free_verdict(one);
    v->count--;
    memmove(one, one + 1, (size_t)(v->list + v->count - one) * sizeof *one);
}

void ct_verdicts_free(struct ct_verdicts *v) {
    for (size_t i = 0; i < v->count; i++)
        free_verdict(&v->list[i]);
    free(v->list);
    *v = (struct ct_verdicts){0};
}

// ---- joining two lists --------------------------------------------------------------------------

// A framework's own pool refused a request, which no call shows: the text alone says so.
static int is_refusal(const struct ct_verdict *v) {
    return v->scenario == CT_SCENARIO_UNKNOWN && v->evidence_count;
}

// What is said of another device is of another process's, which the text does not tell apart; and
// what a trace does not show to grow, the sum of a message shows no better.
static int is_of_no_use(const struct ct_verdict *first, const struct ct_verdict *other) {
    return other->scenario == CT_SCENARIO_LEAK ||
           (first->device >= 0 && other->device >= 0 && first->device != other->device);
}

// Adds evidence of another source or process.
static void add_said(struct ct_verdict *to, const char *who, const struct ct_evidence *e) {
    struct ct_evidence *added = ct_verdict_add_text(to, "%s: %s", who, e->text);
    added->bytes_known = e->bytes_known;
    added->bytes = e->bytes;
}

// Moves the evidence of a verdict to another one of its scenario. Two sources that agree are worth
// more than one.
static void merge(struct ct_verdict *to, struct ct_verdict *from, const char *source) {
    for (size_t i = 0; i < from->evidence_count; i++)
        add_said(to, source, &from->evidence[i]);
    to->confidence = 1 - (1 - to->confidence) * (1 - from->confidence / 2);
}

// Takes a verdict over, texts and all.
static void take(struct ct_verdicts *to, struct ct_verdict *from, double confidence) {
    CT_HEAP_GROW(to->list, to->count, to->room);
    to->list[to->count] = *from;
    to->list[to->count++].confidence = confidence;
    *from = (struct ct_verdict){.scenario = from->scenario};
}

// Less is not of the frames of a stack or of the account.
#define SURE 0.6

// What a verdict of another source is worth beside a trace whose first verdict is `first`.
static double weigh(const struct ct_verdict *first, const struct ct_verdict *other) {
    if (is(HEALTHY, first))
        return is(UNASKED, other) || is_refusal(other) ? other->confidence : other->confidence / 2;
    return first->confidence < SURE || first->scenario == CT_SCENARIO_INCOMPLETE
               ? other->confidence
               : other->confidence / 2;
}

void ct_verdicts_join(struct ct_verdicts *to, struct ct_verdicts *from, const char *source) {
    const size_t own = to->count;
    const struct ct_verdict first =
        own ? to->list[0] : (struct ct_verdict){.scenario = CT_SCENARIO_UNKNOWN};
    double best = 0, most = 1;
    for (size_t i = 0; i < from->count; i++) {
        struct ct_verdict *other = &from->list[i], *same = ct_verdicts_find(to, other->scenario);
        if (same && (same->device < 0 || other->device < 0 || same->device == other->device))
            merge(same, other, source);
        else if (own && is_of_no_use(&first, other))
            continue;
        else if (!is(SAYS_NOTHING, other) ||
                 (first.scenario == CT_SCENARIO_NONE && is_refusal(other))) {
            // What the other source holds for less likely does not overtake what it puts first.
            const double weight = weigh(&first, other), confidence = weight < most ? weight : most;
            most = confidence;
            best = confidence > best ? confidence : best;
            take(to, other, confidence);
        }
    }
    // That nothing failed does not stand beside what did.
    for (size_t i = 0; i < own; i++)
        if (is(SAYS_NOTHING | HEALTHY, &to->list[i]) && best >= 0.5)
            to->list[i].confidence = (1 - best) / 2;
    ct_verdicts_sort(to);
    ct_verdicts_free(from);
}

// ---- several processes --------------------------------------------------------------------------

static void add_process(struct ct_verdict *v, size_t process) {
    CT_HEAP_GROW(v->processes, v->process_count, v->process_room);
    v->processes[v->process_count++] = process;
}

static int is_same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

// Whether two verdicts say the same of their processes: values and bytes may differ.
static int is_same(const struct ct_verdict *a, const struct ct_verdict *b) {
    if (a->scenario != b->scenario || !is_same_text(a->summary, b->summary) ||
        a->advice_count != b->advice_count)
        return 0;
    for (size_t i = 0; i < a->advice_count; i++)
        if (!is_same_text(a->advice[i].flag, b->advice[i].flag) ||
            (!a->advice[i].flag && !is_same_text(a->advice[i].text, b->advice[i].text)))
            return 0;
    return 1;
}

// Whether advice asks for less than another one for the same setting, which all processes share.
static int is_less(const struct ct_advice *a, const struct ct_advice *b) {
    return a->flag && a->to && b->to && strtod(a->to, NULL) < strtod(b->to, NULL);
}

enum { MOST_REQUESTS = 3 }; // evidence of other processes

// Takes a verdict that says the same into the one of the first process: what it was about, and the
// advice that is enough for both.
static void take_in(struct ct_verdict *to, struct ct_verdict *from, const struct ct_process *p) {
    char name[CT_PROCESS_NAME];
    ct_process_name(p, name);
    if (to->process_count <= MOST_REQUESTS && from->evidence_count)
        add_said(to, name, &from->evidence[0]);
    for (size_t i = 0; i < to->advice_count; i++)
        if (is_less(&from->advice[i], &to->advice[i])) {
            const struct ct_advice less = from->advice[i];
            from->advice[i] = to->advice[i];
            to->advice[i] = less;
        }
    if (from->confidence > to->confidence)
        to->confidence = from->confidence;
}

// The verdict of earlier processes that says the same, or NULL.
static struct ct_verdict *find_same(const struct ct_verdicts *to, const struct ct_verdict *v,
                                    size_t process) {
    for (size_t i = 0; i < to->count; i++) {
        struct ct_verdict *one = &to->list[i];
        if (one->processes[one->process_count - 1] != process && is_same(one, v))
            return one;
    }
    return NULL;
}

// Moves the verdicts of a process. `weight`: what they are worth.
static void add_list(struct ct_verdicts *to, struct ct_verdicts *list,
                     const struct ct_processes *all, size_t process, double weight) {
    for (size_t i = 0; i < list->count; i++) {
        struct ct_verdict *v = &list->list[i];
        if (weight < 1 && v->scenario == CT_SCENARIO_NONE)
            continue;
        v->confidence *= weight;
        struct ct_verdict *same = find_same(to, v, process);
        if (same) {
            take_in(same, v, &all->list[process]);
            add_process(same, process);
            continue;
        }
        take(to, v, v->confidence);
        add_process(&to->list[to->count - 1], process);
    }
    ct_verdicts_free(list);
}

struct turn {
    size_t process;
    uint64_t failed_ns; // UINT64_MAX: it has not
};

static int compare_turns(const void *a, const void *b) {
    const struct turn *x = a, *y = b;
    if (x->failed_ns != y->failed_ns)
        return x->failed_ns < y->failed_ns ? -1 : 1;
    return x->process < y->process ? -1 : x->process > y->process;
}

void ct_process_verdicts_join(struct ct_verdicts *to, struct ct_verdicts *lists,
                              const struct ct_processes *all) {
    struct turn *turns = ct_heap_alloc_zeroed(all->count ? all->count : 1, sizeof *turns);
    int any = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct ct_process *p = &all->list[i];
        const int failed = p->is_usable && ct_process_has_failed(p);
        turns[i] =
            (struct turn){i, failed ? ct_process_to_moment(p, p->first_failure_ns) : UINT64_MAX};
        any |= failed;
    }
    qsort(turns, all->count, sizeof *turns, compare_turns);
    for (size_t i = 0; i < all->count; i++) {
        const size_t process = turns[i].process;
        add_list(to, &lists[process], all, process,
                 any && turns[i].failed_ns == UINT64_MAX ? 0.5 : 1);
    }
    ct_verdicts_sort(to);
    free(turns);
}

// SPDX-License-Identifier: Apache-2.0
#include "diagnose/verdicts.h"

#include <stdarg.h>

#include "base/heap.h"

static const struct {
    const char *name, *title;
} scenarios[] = {
#define CT_SCENARIO(ID, name, title) {name, title},
#include "diagnose/scenarios.def"
};

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
    if (v->scenario == CT_SCENARIO_UNKNOWN || v->scenario == CT_SCENARIO_INCOMPLETE ||
        v->scenario == CT_SCENARIO_NONE)
        return NULL;
    return ct_sureness_name(v->confidence);
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

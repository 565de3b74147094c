// SPDX-License-Identifier: Apache-2.0
#include "diagnose/process_verdicts.h"

#include "base/heap.h"

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
static void merge(struct ct_verdict *to, struct ct_verdict *from, const struct ct_process *p) {
    char name[CT_PROCESS_NAME];
    ct_process_name(p, name);
    if (to->process_count <= MOST_REQUESTS && from->evidence_count) {
        struct ct_evidence *e = ct_verdict_add_text(to, "%s: %s", name, from->evidence[0].text);
        e->bytes_known = from->evidence[0].bytes_known;
        e->bytes = from->evidence[0].bytes;
    }
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
static void add(struct ct_verdicts *to, struct ct_verdicts *list, const struct ct_processes *all,
                size_t process, double weight) {
    for (size_t i = 0; i < list->count; i++) {
        struct ct_verdict *v = &list->list[i];
        if (weight < 1 && v->scenario == CT_SCENARIO_NONE)
            continue;
        v->confidence *= weight;
        struct ct_verdict *same = find_same(to, v, process);
        if (same) {
            merge(same, v, &all->list[process]);
            add_process(same, process);
            continue;
        }
        CT_HEAP_GROW(to->list, to->count, to->room);
        to->list[to->count] = *v;
        *v = (struct ct_verdict){.scenario = v->scenario};
        add_process(&to->list[to->count++], process);
    }
    ct_verdicts_free(list);
}

struct turn {
    size_t process;
    uint64_t failed_ns; // UINT64_MAX: it has not
};

static int compare(const void *a, const void *b) {
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
    qsort(turns, all->count, sizeof *turns, compare);
    for (size_t i = 0; i < all->count; i++) {
        const size_t process = turns[i].process;
        add(to, &lists[process], all, process, any && turns[i].failed_ns == UINT64_MAX ? 0.5 : 1);
    }
    ct_verdicts_sort(to);
    free(turns);
}

// SPDX-License-Identifier: Apache-2.0
#include "diagnose/join_verdicts.h"

#include "base/heap.h"

// What cannot be seen from calls for memory: the program refused without asking, or was slow.
static int is_without_request(enum ct_scenario s) {
    return s == CT_SCENARIO_NO_ROOM_FOR_KV_CACHE || s == CT_SCENARIO_PREEMPTION ||
           s == CT_SCENARIO_PREFIX_CACHE_PRESSURE || s == CT_SCENARIO_HOST_MEMORY ||
           s == CT_SCENARIO_DRIVER_MISMATCH || s == CT_SCENARIO_CO_TENANT ||
           s == CT_SCENARIO_MIS_BUDGET;
}

static int says_nothing(enum ct_scenario s) {
    return s == CT_SCENARIO_NONE || s == CT_SCENARIO_INCOMPLETE || s == CT_SCENARIO_UNKNOWN;
}

// As far as the calls show, the program did not suffer.
static int is_healthy(enum ct_scenario s) {
    return s == CT_SCENARIO_NONE || s == CT_SCENARIO_RECOVERED;
}

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

// Moves the evidence of a verdict to another one of its scenario. Two sources that agree are worth
// more than one.
static void merge(struct ct_verdict *to, struct ct_verdict *from, const char *source) {
    for (size_t i = 0; i < from->evidence_count; i++) {
        const struct ct_evidence *e = &from->evidence[i];
        struct ct_evidence *added = ct_verdict_add_text(to, "%s: %s", source, e->text);
        added->bytes_known = e->bytes_known;
        added->bytes = e->bytes;
    }
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
    if (is_healthy(first->scenario))
        return is_without_request(other->scenario) || is_refusal(other) ? other->confidence
                                                                        : other->confidence / 2;
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
        else if (!says_nothing(other->scenario) ||
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
        if ((says_nothing(to->list[i].scenario) || is_healthy(to->list[i].scenario)) && best >= 0.5)
            to->list[i].confidence = (1 - best) / 2;
    ct_verdicts_sort(to);
    ct_verdicts_free(from);
}

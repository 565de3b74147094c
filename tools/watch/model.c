// SPDX-License-Identifier: Apache-2.0
#include "watch/model.h"

#include <stdlib.h>

const struct ct_watch_part_row ct_watch_parts[CT_WATCH_PARTS] = {
#define CT_WATCH_PART(ID, key, letter, color, title) {key, color, title, letter},
#include "watch/parts.def"
};

int ct_watch_is_used(const struct ct_journal_device *d) {
    return d->tracked || d->peak || d->ooms || d->total;
}

int ct_watch_is_alive(const struct ct_watch_process *p) {
    return p->state == CT_WATCH_RECORDING || p->state == CT_WATCH_PAUSED;
}

const char *ct_watch_state_name(enum ct_watch_state state) {
    static const char *const names[] = {"recording", "paused", "killed", "damaged", "ended"};
    return names[state];
}

const char *ct_watch_outcome_name(enum ct_watch_outcome outcome) {
    static const char *const names[] = {"failed", "recovered", "retried"};
    return names[outcome];
}

void ct_watch_details_free(struct ct_watch_details *d) {
    for (size_t i = 0; i < d->site_count; i++)
        free(d->sites[i].label);
    free(d->devices);
    free(d->phase);
    free(d->verdict.summary);
    *d = (struct ct_watch_details){0};
}

void ct_watch_process_free(struct ct_watch_process *p) {
    ct_watch_details_free(&p->details);
    free(p->trace);
    free(p->problem);
    *p = (struct ct_watch_process){0};
}

const struct ct_watch_device *ct_watch_main_device(const struct ct_watch_process *p) {
    const struct ct_watch_device *best = NULL;
    for (size_t i = 0; i < p->details.device_count; i++)
        if (!best || p->details.devices[i].tracked > best->tracked)
            best = &p->details.devices[i];
    return best;
}

uint64_t ct_watch_details_tracked(const struct ct_watch_process *p) {
    uint64_t sum = 0;
    for (size_t i = 0; i < p->details.device_count; i++)
        sum += p->details.devices[i].tracked;
    return sum;
}

uint64_t ct_watch_tracked(const struct ct_watch_process *p) {
    uint64_t sum = 0;
    if (p->has_details && p->details.events >= p->head.events)
        return ct_watch_details_tracked(p);
    for (int i = 0; i < CT_JOURNAL_DEVICES; i++)
        sum += p->head.device[i].tracked;
    return sum;
}

// ---- what is new --------------------------------------------------------------------------------

// A verdict is about the request that made the program fail; one that a retry healed is no part of
// it.
static enum ct_scenario judge_now(const struct ct_watch_details *d, enum ct_watch_outcome outcome) {
    if (outcome == CT_WATCH_RETRIED)
        return CT_SCENARIO_RECOVERED;
    return d->verdict.summary ? d->verdict.scenario : CT_SCENARIO_UNKNOWN;
}

static void note_incidents(struct ct_watch_news *n, const struct ct_watch_details *d) {
    for (int i = 0; i < CT_WATCH_OUTCOMES; i++) {
        const uint64_t count = d->fresh.count[i];
        n->requests[i] += count;
        n->scenarios[judge_now(d, (enum ct_watch_outcome)i)] += count;
        n->untold += count;
    }
    n->next_event = d->fresh.next_event;
}

static void note_growth(struct ct_watch_news *n, const struct ct_watch_device *d, uint64_t now_ns) {
    const int at = ct_device_to_index(d->ordinal);
    if (!d->has_full)
        return;
    if (!n->grew_ns[at] || now_ns - n->grew_ns[at] > CT_WATCH_GROWTH_APART_NS)
        n->growth[at] = 1;
    n->grew_ns[at] = now_ns;
}

void ct_watch_news_note(struct ct_watch_news *n, const struct ct_watch_details *d,
                        uint64_t now_ns) {
    note_incidents(n, d);
    for (size_t i = 0; i < d->device_count; i++)
        note_growth(n, &d->devices[i], now_ns);
}

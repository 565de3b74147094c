// SPDX-License-Identifier: Apache-2.0
#include "watch/model.h"

#include <stdlib.h>

static const struct {
    const char *key, *color, *title;
    char letter;
} parts[CT_WATCH_PARTS] = {
#define CT_WATCH_PART(ID, key, letter, color, title) {key, color, title, letter},
#include "watch/parts.def"
};

const char *ct_watch_part_key(enum ct_watch_part part) {
    return parts[part].key;
}
const char *ct_watch_part_title(enum ct_watch_part part) {
    return parts[part].title;
}
char ct_watch_part_letter(enum ct_watch_part part) {
    return parts[part].letter;
}
const char *ct_watch_part_color(enum ct_watch_part part) {
    return parts[part].color;
}

int ct_watch_now_is_used(const struct ct_watch_now *n) {
    return n->tracked || n->peak || n->ooms || n->total;
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
    free(d->scenario);
    free(d->title);
    free(d->summary);
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
    if (p->has_details && p->details.events >= p->events)
        return ct_watch_details_tracked(p);
    for (size_t i = 0; i < sizeof p->now / sizeof *p->now; i++)
        sum += p->now[i].tracked;
    return sum;
}

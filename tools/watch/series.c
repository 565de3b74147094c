// SPDX-License-Identifier: Apache-2.0
#include "watch/series.h"

#include <cutrace/model/device_use.h>

#define STEP_NS (CT_SERIES_STEP_S * UINT64_C(1000000000))

static uint64_t find_begin(const struct ct_series *s) {
    const uint64_t span = (CT_SERIES_POINTS - 1) * STEP_NS;
    return s->end_ns > span ? s->end_ns - span : 0;
}

static void add(struct ct_trend_point *points, size_t *count, uint64_t t_ns, uint64_t bytes) {
    if (*count < CT_SERIES_POINTS)
        points[(*count)++] = (struct ct_trend_point){t_ns, bytes};
}

// Adds the points before a time, of the state that lasted until then.
static void advance(struct ct_series *s, uint64_t t_ns) {
    for (; s->next_ns && s->next_ns < t_ns; s->next_ns += STEP_NS)
        for (int i = 0; i < s->devices; i++) {
            struct ct_series_of_device *d = &s->device[i];
            add(d->own, &d->own_count, s->next_ns, d->own_level);
            if (d->whole_known)
                add(d->whole, &d->whole_count, s->next_ns, d->whole_level);
        }
}

static void read_levels(struct ct_series *s, const struct ct_replay *r) {
    for (int i = 0; i < s->devices; i++) {
        struct ct_series_of_device *d = &s->device[i];
        const struct ct_reading *last = &r->readings.device[i].last;
        d->own_level = ct_live_tracked(&r->live.device[i]);
        d->whole_known = last->known;
        if (last->known) // (the difference may be negative, and wraps)
            d->whole_level = last->used + d->own_level - last->tracked;
    }
}

// The first event decides where the points lie: the last one is at the moment.
static void begin(struct ct_series *s, uint64_t t_ns) {
    const uint64_t begin = find_begin(s), first = t_ns > begin ? t_ns : begin;
    s->next_ns = s->end_ns;
    if (s->end_ns > first)
        s->next_ns = s->end_ns - (s->end_ns - first) / STEP_NS * STEP_NS;
}

void ct_series_note(struct ct_series *s, const struct ct_replay *r, const struct ct_event *e) {
    if (r->gaps != s->gaps) { // nothing is known of what was before
        const uint64_t end_ns = s->end_ns, gaps = r->gaps;
        *s = (struct ct_series){.end_ns = end_ns, .gaps = gaps, .devices = CT_MAX_DEVICES};
    }
    if (!r->is_known)
        return;
    const int index = ct_event_device_index(e);
    if (index < CT_MAX_DEVICES && index >= s->devices)
        s->devices = index + 1;
    if (!s->next_ns)
        begin(s, e->t_ns);
    advance(s, e->t_ns);
    read_levels(s, r);
}

void ct_series_finish(struct ct_series *s) {
    advance(s, s->end_ns + 1);
}

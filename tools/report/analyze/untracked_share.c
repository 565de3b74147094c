// SPDX-License-Identifier: Apache-2.0
#include "analyze/untracked_share.h"

static void note_reading(struct ct_untracked_share *s, const struct ct_replay *r,
                         const struct ct_event *e) {
    if (!CT_HAS(e, free_bytes) || !CT_HAS(e, total_bytes) || e->t_ns < s->from_ns ||
        e->t_ns > s->to_ns)
        return; // (hostile times lie outside)
    const int device = ct_event_device_index(e);
    const struct ct_breakdown at = ct_replay_split(r, device);
    if (!at.used_known || at.reading_t_ns != e->t_ns)
        return; // the reading said nothing certain
    const unsigned __int128 span = (unsigned __int128)(s->to_ns - s->from_ns) + 1;
    const unsigned i =
        (unsigned)((e->t_ns - s->from_ns) * (unsigned __int128)CT_UNTRACKED_SHARE_PARTS / span);
    s->device[device].part[i] = (struct ct_untracked_share_part){1, at};
}

static void note(void *share, const struct ct_replay *r, const struct ct_event *e,
                 uint64_t number) {
    struct ct_untracked_share *s = share;
    (void)number;
    if (ct_event_uses_device(e))
        s->device[ct_event_device_index(e)].seen = 1;
    note_reading(s, r, e);
}

// What a checkpoint restored counts, too.
static void end(void *share, const struct ct_replay *r) {
    struct ct_untracked_share *s = share;
    for (int d = 0; d < CT_DEVICES; d++)
        s->device[d].seen |= r->live.device[d].live_allocations || r->readings.device[d].seen;
}

struct ct_listener ct_untracked_share_listener(struct ct_untracked_share *s,
                                               const struct ct_trace *t) {
    *s = (struct ct_untracked_share){.from_ns = t->t_first_ns, .to_ns = t->t_last_ns};
    return (struct ct_listener){.self = s, .after = note, .end = end};
}

// SPDX-License-Identifier: Apache-2.0
#include "analyze/untracked_share.h"

static void note_reading(struct ct_untracked_share *s, const struct ct_replay *r,
                         const struct ct_event *e) {
    if (!CT_HAS(e, free_bytes) || !CT_HAS(e, total_bytes) || e->t_ns < s->from_ns ||
        e->t_ns > s->to_ns)
        return;
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
    (void)number;
    note_reading(share, r, e);
}

struct ct_listener ct_untracked_share_listener(struct ct_untracked_share *s) {
    return (struct ct_listener){.self = s, .after = note};
}

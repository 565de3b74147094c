// SPDX-License-Identifier: Apache-2.0
#include "sites/least_held.h"

unsigned ct_least_stretch_part(const struct ct_least_stretch *s, uint64_t t_ns) {
    if (t_ns <= s->from_ns || s->to_ns <= s->from_ns)
        return 0;
    const uint64_t span = s->to_ns - s->from_ns;
    const unsigned __int128 part = (unsigned __int128)(t_ns - s->from_ns) * s->parts / span;
    return part < s->parts ? (unsigned)part : s->parts - 1;
}

uint64_t ct_least_stretch_begin(const struct ct_least_stretch *s, unsigned part) {
    const unsigned __int128 span = s->to_ns - s->from_ns;
    // Rounded up: the first time that ct_least_stretch_part puts into the part.
    return s->from_ns + (uint64_t)((span * part + s->parts - 1) / s->parts);
}

void ct_least_held_advance(struct ct_least_held *h, unsigned part) {
    while (h->part < part)
        h->least[++h->part] = h->held;
}

void ct_least_held_add(struct ct_least_held *h, const struct ct_least_stretch *s, uint64_t t_ns,
                       uint64_t bytes) {
    const int before = t_ns < s->from_ns;
    if (!before)
        ct_least_held_advance(h, ct_least_stretch_part(s, t_ns));
    h->held += bytes;
    if (before || h->held < h->least[h->part]) // the first part begins with what is held then
        h->least[h->part] = h->held;
}

void ct_least_held_restart(struct ct_least_held *h) {
    h->part = 0;
    h->least[0] = h->held;
}

// SPDX-License-Identifier: Apache-2.0
// The least that was held in each of several parts of a stretch of time: what stays rises in it,
// what comes and goes does not.
#ifndef CT_LEAST_HELD_H
#define CT_LEAST_HELD_H

#include <stdint.h>

struct ct_least_stretch {
    uint64_t from_ns, to_ns;
    unsigned parts;
};

struct ct_least_held {
    uint64_t held;
    unsigned part;   // the present one
    uint64_t *least; // by part; the caller's memory
};

// The part of a time; what is before the stretch belongs to the first one.
unsigned ct_least_stretch_part(const struct ct_least_stretch *s, uint64_t t_ns);
// The time at which a part begins.
uint64_t ct_least_stretch_begin(const struct ct_least_stretch *s, unsigned part);
// Adds to what is held from a time on; times do not decrease.
void ct_least_held_add(struct ct_least_held *h, const struct ct_least_stretch *s, uint64_t t_ns,
                       uint64_t bytes);
// Forgets the parts so far: the first one begins with what is held.
void ct_least_held_restart(struct ct_least_held *h);
// What is held at the end of a part is held in those that follow, up to `part`.
void ct_least_held_advance(struct ct_least_held *h, unsigned part);

#endif

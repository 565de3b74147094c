// SPDX-License-Identifier: Apache-2.0
#include "diagnose/find_error.h"

// PyTorch names what a request was rounded to: blocks to 512 B, segments to 2 MiB.
#define ROUNDING (UINT64_C(2) << 20)

// Whether a value of the message, known to its last digit, is that of the trace.
static int is_near(const struct ct_text_value *said, uint64_t is, uint64_t rounding) {
    if (said->value < 0)
        return 0;
    const uint64_t value = (uint64_t)said->value, step = (uint64_t)said->step;
    return value + step + 1 >= is && value <= is + step + rounding;
}

// How well an event fits: 0: not at all. Size and device must fit where both are known; what was
// free differs where other processes allocate, and then speaks for another event.
static int weigh(const struct ct_oom_event *o, const struct ct_text_fact *m,
                 struct ct_found_error *f) {
    const struct ct_text_value *tried = &m->values[CT_TEXT_TRIED], *gpu = &m->values[CT_TEXT_GPU],
                               *free = &m->values[CT_TEXT_FREE];
    f->by_size = tried->known && o->bytes_known;
    f->by_device = gpu->known && o->device < CT_MAX_DEVICES;
    f->by_free = free->known && o->reading_known && is_near(free, o->free, 0);
    if (tried->known != o->bytes_known || (f->by_size && !is_near(tried, o->bytes, ROUNDING)))
        return 0;
    if (f->by_device && gpu->value != o->device)
        return 0;
    return 1 + 2 * f->by_free;
}

struct ct_found_error ct_find_error(const struct ct_incidents *n,
                                    const struct ct_text_fact *message) {
    struct ct_found_error best = {0};
    int most = 0;
    for (size_t i = 0; message && i < n->oom_count; i++) {
        struct ct_found_error one = {.event = ct_incidents_head(n, n->ooms[i].incident),
                                     .fitting = 1};
        const int weight = weigh(&n->ooms[i], message, &one);
        if (!weight || weight < most)
            continue;
        if (weight == most)
            one.fitting = best.fitting + (one.event != best.event);
        most = weight;
        best = one;
    }
    return best;
}

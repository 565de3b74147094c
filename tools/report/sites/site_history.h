// SPDX-License-Identifier: Apache-2.0
// What call sites held over a whole window of time, up to a moment: the least in each part of it,
// when what they hold now was allocated, and how long they held what they gave back. And the same
// of PyTorch's pool: the least that it had reserved, the most that blocks filled of it.
//
// site_growth.h fills it in its pass over the events.
#ifndef CT_SITE_HISTORY_H
#define CT_SITE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

enum {
    CT_SITE_HISTORY_PARTS = 64,
    // Lifetimes are counted in quarters of octaves, so that one is known to a fifth.
    CT_SITE_LIFETIMES = 4 * 64,
};

// The least that was held in each of several parts of a stretch of time: what stays rises in it,
// what comes and goes does not.
struct ct_least_stretch {
    uint64_t from_ns, to_ns;
    unsigned parts;
};

struct ct_least_held {
    uint64_t held;
    unsigned part;   // the present one
    uint64_t *least; // by part; the caller's memory
};

// An allocation that is live at the moment.
struct ct_site_birth {
    uint64_t t_ns; // 0: not known, before the first event
    uint64_t bytes, count;
};

struct ct_site_history {
    uint64_t least[CT_SITE_HISTORY_PARTS];
    struct ct_least_held held; // of `least`
    // Of those that were allocated and given back in the window.
    uint64_t *lifetimes, given_back; // by length; NULL: there were none
    struct ct_site_birth *births;    // in the order of time
    size_t birth_count, birth_room;
};

struct ct_pool_history {
    int seen; // PyTorch's pool has segments
    uint64_t least_reserved[CT_SITE_HISTORY_PARTS], most_filled[CT_SITE_HISTORY_PARTS];
    struct ct_least_held reserved; // of `least_reserved`
    uint64_t filled;               // now
};

struct ct_site_histories {
    struct ct_least_stretch window;
    // From here on every event is known: what was held is exact. 0: in the whole window.
    uint64_t exact_from_ns;
    uint64_t lost;                // events since then, as LOST events count them
    struct ct_site_history *list; // by group
    size_t count;
    struct ct_pool_history pool;
};

void ct_site_histories_init(struct ct_site_histories *h, uint64_t from_ns, uint64_t to_ns);
void ct_site_histories_free(struct ct_site_histories *h);

// For the pass. Begins with `count` groups.
void ct_site_histories_begin(struct ct_site_histories *h, size_t count);
// What a group holds changes; `t_ns` is 0 while a state is restored.
void ct_site_histories_hold(struct ct_site_histories *h, size_t group, uint64_t t_ns,
                            uint64_t bytes);
// A group gives back an allocation (sign +1), or did not (-1).
void ct_site_histories_give_back(struct ct_site_histories *h, size_t group, uint64_t born_ns,
                                 uint64_t t_ns, int sign);
// The pool after an event.
void ct_site_histories_note_pool(struct ct_site_histories *h, uint64_t t_ns, uint64_t reserved,
                                 uint64_t filled);
// The first event after a gap: what was held before is not known.
void ct_site_histories_restart(struct ct_site_histories *h, uint64_t t_ns);
// After the last event: adds what is live, in any order; then ends.
void ct_site_histories_add_live(struct ct_site_histories *h, size_t group,
                                const struct ct_site_birth *b);
void ct_site_histories_end(struct ct_site_histories *h);

// How long a group held what it gave back, but for the `left_out` that it held longest: a time that
// none of the others reached. 0: it gave back no more than these.
uint64_t ct_site_history_lifetime(const struct ct_site_history *h, uint64_t left_out);

// The part of a time; what is before the stretch belongs to the first one.
unsigned ct_least_stretch_part(const struct ct_least_stretch *s, uint64_t t_ns);
// The time at which a part begins.
uint64_t ct_least_stretch_begin(const struct ct_least_stretch *s, unsigned part);
// Adds to what is held from a time on; times do not decrease.
void ct_least_held_add(struct ct_least_held *h, const struct ct_least_stretch *s, uint64_t t_ns,
                       uint64_t bytes);
// Forgets the parts before one, which begins with what is held.
void ct_least_held_restart(struct ct_least_held *h, unsigned part);
// What is held at the end of a part is held in those that follow, up to `part`.
void ct_least_held_advance(struct ct_least_held *h, unsigned part);

#endif

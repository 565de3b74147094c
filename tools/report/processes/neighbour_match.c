// SPDX-License-Identifier: Apache-2.0
#include "processes/neighbour_match.h"

#define LARGE ((uint64_t)32 << 20) // a change, and more than what a reading can be wrong by
#define CLOSE ((uint64_t)8 << 20)  // rounding to pages, a module that was loaded meanwhile
enum { TIMES = 2, CLOSE_PART = 16 };

static uint64_t apart(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

// Whether two values changed by as much, in the same direction.
static int changes_match(uint64_t a, uint64_t a_before, uint64_t b, uint64_t b_before) {
    const uint64_t by_a = apart(a, a_before), by_b = apart(b, b_before);
    const uint64_t room = by_b / CLOSE_PART > CLOSE ? by_b / CLOSE_PART : CLOSE;
    return (a > a_before) == (b > b_before) && apart(by_a, by_b) <= room;
}

void ct_neighbour_match_add(struct ct_neighbour_match *m, uint64_t bytes, uint64_t tracked) {
    if (tracked > bytes && tracked - bytes >= LARGE)
        m->is_excluded = 1;
    if (m->known && apart(tracked, m->tracked) >= LARGE) {
        if (changes_match(bytes, m->bytes, tracked, m->tracked))
            m->matched++;
        else
            m->missed++;
    } else if (m->known && apart(bytes, m->bytes) >= LARGE * 4) {
        m->missed++; // (contexts and code do not take so much at once)
    }
    m->known = 1;
    m->bytes = bytes;
    m->tracked = tracked;
}

int ct_neighbour_match_fits(const struct ct_neighbour_match *m, int is_only) {
    return !m->is_excluded && m->matched >= (is_only ? 1 : TIMES) && m->missed * 4 <= m->matched;
}

int ct_neighbour_match_competes(const struct ct_neighbour_match *m) {
    return !m->is_excluded && m->matched && m->matched >= m->missed;
}

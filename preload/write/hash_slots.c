// SPDX-License-Identifier: Apache-2.0
// A hash table of indexes into an array of the caller's, with linear probing.
#include "write/hash_slots.h"

#include <errno.h>
#include <string.h>

#include "base/pages.h"

#define FIRST_ROOM 1024u

int ct_hash_slots_reserve(struct ct_hash_slots *s, uint32_t used,
                          uint32_t (*hash_of)(uint32_t index)) {
    struct ct_hash_slots larger = {NULL, s->room ? s->room * 2 : FIRST_ROOM};
    if (used < s->room / 2)
        return 0;
    if (!(larger.at = ct_pages_map(larger.room * sizeof *larger.at)))
        return used + 1 < s->room ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < s->room; i++) {
        if (!s->at[i])
            continue;
        uint32_t to = hash_of(s->at[i] - 1) & (larger.room - 1);
        while (larger.at[to])
            to = (to + 1) & (larger.room - 1);
        larger.at[to] = s->at[i];
    }
    ct_pages_unmap(s->at, s->room * sizeof *s->at);
    *s = larger;
    return 0;
}

void ct_hash_slots_clear(struct ct_hash_slots *s) {
    if (s->at)
        memset(s->at, 0, s->room * sizeof *s->at);
}

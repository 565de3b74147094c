// SPDX-License-Identifier: Apache-2.0
// Call stacks to order: recursion through several functions, of which a path chooses one at each
// level.
#include "peer_path.h"

// Bits of the number in the low bit of every second level, so that all frames have one size.
uint64_t peer_hot_path(uint64_t number) {
    uint64_t path = 0;
    for (unsigned i = 0; number >> i && i < 16; i++)
        path |= (number >> i & 1) << 4 * i;
    return path;
}

// The number's digits to base 4, scrambled, each at another level.
uint64_t peer_fresh_path(uint64_t number) {
    uint64_t path = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return path ^ path >> 29;
}

struct walk {
    uint64_t path;
    unsigned levels;
    void *user;
};

typedef unsigned long walker(struct walk *w);
static walker small, alike, larger, largest;

static inline __attribute__((always_inline)) unsigned long go_on(struct walk *w) {
    if (!w->levels--) {
        peer_arrived(w->user);
        return 0;
    }
    const unsigned which = w->path & 3;
    w->path >>= 2;
    if (which == 0)
        return small(w);
    if (which == 1)
        return alike(w);
    return which == 2 ? larger(w) : largest(w);
}

// What is added keeps the functions from becoming one, and the barrier their calls from becoming a
// loop.
#define WALKER(name, bytes, add)                                          \
    static __attribute__((noinline)) unsigned long name(struct walk *w) { \
        volatile char room[bytes];                                        \
        room[0] = 0;                                                      \
        unsigned long sum = go_on(w) + (unsigned long)room[0];            \
        __asm__ volatile("" : "+r"(sum));                                 \
        return sum + (add);                                               \
    }
WALKER(small, 16, 1)
WALKER(alike, 16, 2)
WALKER(larger, 64, 3)
WALKER(largest, 160, 4)

void peer_walk(uint64_t path, unsigned levels, void *user) {
    struct walk w = {path, levels, user};
    const unsigned long sum = small(&w);
    __asm__ volatile("" ::"r"(sum)); // it is wanted: the calls stay calls
}

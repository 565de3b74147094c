// SPDX-License-Identifier: Apache-2.0
// Chance that is the same in every run, for tests and measurements (splitmix64; Steele, Lea and
// Flood 2014).
#ifndef TESTS_DRAW_H
#define TESTS_DRAW_H

#include <stdint.h>

static uint64_t chance = 1; // another value begins another sequence

static inline uint64_t draw(uint64_t below) {
    chance += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = chance;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % below;
}

#endif

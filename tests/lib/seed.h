// SPDX-License-Identifier: Apache-2.0
// The one seed of all random inputs of tests: CUTRACE_SEED, 0 without it, as tests/lib/tap.py has
// it. A test that wants the number N for its inputs takes N + test_seed().
#ifndef TESTS_SEED_H
#define TESTS_SEED_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t test_seed(void) {
    const char *seed = getenv("CUTRACE_SEED");
    return seed && *seed ? strtoull(seed, NULL, 10) : 0;
}

// How many rounds: the first number in `make check`, the second one with CUTRACE_FULL=1.
static inline unsigned test_rounds(unsigned quick, unsigned all) {
    const char *full = getenv("CUTRACE_FULL");
    return full && *full ? all : quick;
}

#endif

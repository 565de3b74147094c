// SPDX-License-Identifier: Apache-2.0
// The smaller of two sizes.
#ifndef CT_BASE_MIN_H
#define CT_BASE_MIN_H

#include <stdint.h>

static inline uint64_t ct_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

#endif

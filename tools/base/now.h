// SPDX-License-Identifier: Apache-2.0
#ifndef CT_NOW_H
#define CT_NOW_H

#include <stdint.h>
#include <time.h>

// What a clock shows, in nanoseconds.
static inline uint64_t ct_now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif

// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <cutrace/model/slot_index.h>
#include <sys/auxv.h>

uint64_t ct_hash_seed[2];

// The kernel gives each process 16 random bytes: no call that could fail or wait. The state of a
// trace (cutrace/model) has tables of its own.
__attribute__((constructor(101))) static void choose_seed(void) {
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(ct_hash_seed, random, sizeof ct_hash_seed);
    ct_hash_seed[0] = ct_hash_mix(UINT64_C(0x9E3779B97F4A7C15));
    ct_hash_seed[1] |= 1;
    ct_slot_index_factor = ct_hash_mix(1) | 1;
}

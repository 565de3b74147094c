// SPDX-License-Identifier: Apache-2.0
// How much a trace may unfold to. Chunks are compressed, so that a few kilobytes of a stranger's
// could ask for gigabytes; what exceeds a bound is damage.
//
// Bounds grow with the bytes of the file, compressed as they are, on top of what any file may ask
// for. Real traces stay below a share of them: the densest that a recorder was made to write (one
// thread that allocates and frees the same bytes in a loop) has 2.4 events for each byte of the
// file, and definitions take 21 bytes of memory at most.
#ifndef CT_BOUNDS_H
#define CT_BOUNDS_H

#include <stdint.h>

// Bytes of memory for all definitions together. (Arrays and tables grow by doubling, with the old
// one beside the new one: the most that is taken is less than twice this.)
static inline uint64_t ct_bounds_definition_bytes(uint64_t file_bytes) {
    return (UINT64_C(24) << 20) + file_bytes * 48;
}

// Records in all chunks together: events, corrections and objects of checkpoints.
static inline uint64_t ct_bounds_records(uint64_t file_bytes) {
    return (UINT64_C(1) << 19) + file_bytes * 32;
}

#endif

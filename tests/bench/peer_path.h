// SPDX-License-Identifier: Apache-2.0
// Call stacks to order: recursion through several functions, of which a path chooses one at each
// level.
#ifndef PEER_PATH_H
#define PEER_PATH_H

#include <stdint.h>

// Two bits of a path choose the function of a level: 0 and 1 have frames of the same size, 2 and 3
// larger ones.
uint64_t peer_hot_path(uint64_t number);
uint64_t peer_fresh_path(uint64_t number);

// Calls peer_arrived(user) below `levels` functions.
void peer_walk(uint64_t path, unsigned levels, void *user);
void peer_arrived(void *user);

#endif

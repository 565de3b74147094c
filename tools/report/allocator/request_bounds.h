// SPDX-License-Identifier: Apache-2.0
// A trace has the sizes of blocks, not of what was asked for: between which bounds that lies.
#ifndef CT_REQUEST_BOUNDS_H
#define CT_REQUEST_BOUNDS_H

#include "allocator/settings.h"

// The most that the request of a block can have been: where sizes are rounded to steps, a block
// between two of them was larger than what it was taken for.
uint64_t ct_request_most(const struct ct_allocator_settings *s, uint64_t bytes);
// The least that a block's request can have been, `whole`: if it got a whole free block.
uint64_t ct_request_least(const struct ct_allocator_settings *s, uint64_t bytes, int whole);

#endif

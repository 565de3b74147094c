// SPDX-License-Identifier: Apache-2.0
// Sizes of a trace that can be. They are added up in many places, and a stranger's trace may name
// any: so that no sum of them overflows, those that events allocate or give back are bounded
// together, each chunk's by its share, and those that are read from a device each by itself.
#ifndef CT_SIZE_BOUNDS_H
#define CT_SIZE_BOUNDS_H

#include <cutrace/format/format.h>
#include <stddef.h>

struct ct_size_bounds {
    uint64_t left; // what the events of the chunk may still add
};

// Before the first event of a chunk; `chunks`: of the trace.
void ct_size_bounds_begin(struct ct_size_bounds *b, size_t chunks);
// Takes sizes that cannot be out of an event: they are not known. Returns 1 if it had some.
int ct_size_bounds_apply(struct ct_size_bounds *b, struct ct_event *e);

#endif

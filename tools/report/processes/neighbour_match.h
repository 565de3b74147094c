// SPDX-License-Identifier: Apache-2.0
// Which of the processes that NVML lists is this one, where its number does not say so: the one
// whose memory changes with this process's allocations.
//
// At each time that NVML was asked and no call was under way, a process has `bytes` by NVML and
// this one has `tracked` by its own events. This process holds what it tracks, and its contexts and
// code beyond that. Where what is tracked changes by much, so must the bytes of this process, and
// by as much. A process with fewer bytes than are tracked is another one. What is found is
// inferred; where two processes fit, or one fits too seldom, nothing is.
#ifndef CT_NEIGHBOUR_MATCH_H
#define CT_NEIGHBOUR_MATCH_H

#include <stdint.h>

// A time at which NVML was asked about a device; it counts if nothing changed shortly before, and
// no call was under way.
struct ct_match_tick {
    int is_open;            // it may count: the next event decides
    uint64_t t_ns, tracked; // at its first event
    uint64_t changed_ns;    // when what is tracked changed last
};

struct ct_neighbour_match {
    int known, is_excluded;   // known: there are figures of a time before
    uint64_t bytes, tracked;  // of that time
    unsigned matched, missed; // large changes of what is tracked
};

// Compares the figures of a time that counts with those before.
void ct_neighbour_match_add(struct ct_neighbour_match *m, uint64_t bytes, uint64_t tracked);
// Whether the figures alone would do. `is_only`: no other process was ever listed.
int ct_neighbour_match_fits(const struct ct_neighbour_match *m, int is_only);
// Whether it speaks against another process that it is not excluded itself.
int ct_neighbour_match_competes(const struct ct_neighbour_match *m);

#endif

// SPDX-License-Identifier: Apache-2.0
// What a server's capture of CUDA graphs has made so far: executables, and what they took.
#ifndef CT_GRAPH_CAPTURES_H
#define CT_GRAPH_CAPTURES_H

#include "read/trace.h"
#include "symbols/phases.h"

struct ct_graph_captures {
    uint64_t count;           // instantiations in the phase of capture; trials before it are none
    uint64_t measured, bytes; // of so many of them it is known what they took
};

// Reads the events up to a time, of one device.
struct ct_graph_captures ct_graph_captures_read(struct ct_trace *t, struct ct_phases *phases,
                                                int device, uint64_t to_ns);

#endif

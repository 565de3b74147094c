// SPDX-License-Identifier: Apache-2.0
// The graphs that are a conditional node's bodies.
#ifndef SIM_CONDITIONAL_H
#define SIM_CONDITIONAL_H

#include "sim.h"

// NULL: the parameters are not valid. Their array of graphs lives as long as the bodies.
struct sim_bodies *sim_bodies_new(CUDA_CONDITIONAL_NODE_PARAMS *params, struct sim_context *ctx,
                                  CUresult *result);
void sim_bodies_delete(struct sim_bodies *b); // NULL: nothing

#endif

// SPDX-License-Identifier: Apache-2.0
// What copies of all shapes share.
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "stream.h"

enum sim_side { SIM_SIDE_ANY, SIM_SIDE_DEVICE, SIM_SIDE_HOST };

struct sim_copy {
    uint64_t to, from;
    size_t bytes;
    enum sim_side to_side, from_side;
};

bool sim_copy_accepts(uint64_t base, uint64_t size, enum sim_side side);
void sim_copy_do(const struct sim_copy *m); // of what was accepted

#endif

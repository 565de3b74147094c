// SPDX-License-Identifier: Apache-2.0
// Which of the processes that NVML lists are those whose traces were given, too.
#ifndef CT_NEIGHBOUR_SIBLINGS_H
#define CT_NEIGHBOUR_SIBLINGS_H

#include "processes/neighbours.h"
#include "processes/processes.h"

// After ct_neighbours_identify; `index` is the trace of the list.
void ct_neighbour_siblings_find(struct ct_neighbours *n, const struct ct_processes *all,
                                size_t index);

#endif

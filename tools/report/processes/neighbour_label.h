// SPDX-License-Identifier: Apache-2.0
// The name of a process that NVML lists, for texts.
#ifndef CT_NEIGHBOUR_LABEL_H
#define CT_NEIGHBOUR_LABEL_H

#include "processes/neighbours.h"

// Prints "python3 (pid 123)", or "pid 123" where the name is unknown, and whose process it is if it
// is no stranger. Without control characters; `to` has CT_NEIGHBOUR_LABEL bytes.
enum { CT_NEIGHBOUR_LABEL = 160 };
void ct_neighbour_label(const struct ct_definitions *definitions, const struct ct_neighbour *p,
                        char *to);

#endif

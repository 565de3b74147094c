// SPDX-License-Identifier: Apache-2.0
// The parts of the stand-in libcupti know each other by these.
#ifndef SIM_CUPTI_H
#define SIM_CUPTI_H

#include <stdint.h>

#include "trace_points.h"

// The call-back ids that the library knows are below this number.
uint32_t sim_cupti_ids(void);

// At the exit of a call: the records of the enabled kinds.
void sim_activity_of_call(const struct sim_point *point);

// No kind is enabled any more, no buffer is asked for.
void sim_activity_end(void);

#endif

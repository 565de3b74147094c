// SPDX-License-Identifier: Apache-2.0
// The parts of the stand-in libcupti know each other by these.
#ifndef SIM_CUPTI_H
#define SIM_CUPTI_H

#include <cupti.h>
#include <stdint.h>

#include "trace_points.h"

// The call-back ids that the library knows are below this number.
uint32_t sim_cupti_ids(void);

// At the exit of a call: the records of the enabled kinds.
void sim_activity_of_call(const struct sim_point *point);

// A module whose code is an ELF file is loaded, or will be unloaded.
void sim_modules_of_call(const struct sim_point *point, bool is_exit);
void sim_call_back_of_module(CUpti_CallbackIdResource cbid, uint32_t id, const void *cubin,
                             size_t bytes);

// No kind is enabled any more, no buffer is asked for.
void sim_activity_end(void);

#endif

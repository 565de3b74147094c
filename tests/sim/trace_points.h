// SPDX-License-Identifier: Apache-2.0
// What the simulated driver tells of its calls to the stand-in libcupti. A private arrangement of
// the two, as the real ones have another.
#ifndef SIM_TRACE_POINTS_H
#define SIM_TRACE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct sim_point {
    uint32_t cbid; // CUPTI_DRIVER_TRACE_CBID_*
    const char *function;
    const void *params;   // the function's struct in generated_cuda_meta.h; NULL: no parameters
    CUresult *result;     // valid at the exit
    uint64_t correlation; // the tracer's, from enter to exit
    uint64_t entered;     // the subscription that has seen the enter
};

// Called at the enter and the exit of each public function of the hook table, outside the driver's
// lock, on the caller's thread and stack.
typedef void sim_tracer(struct sim_point *point, bool is_exit);

// Exported. NULL: nobody listens any more.
void sim_driver_set_tracer(sim_tracer *tracer);

#endif

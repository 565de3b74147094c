// SPDX-License-Identifier: Apache-2.0
// Where the memory was that a failed request missed: what would have been enough for it.
#ifndef CT_OOM_CAUSE_H
#define CT_OOM_CAUSE_H

#include "analyze/oom_reason.h"
#include "analyze/pool_growth.h"

// Other processes are only named as a cause if they hold at least this part of the device: NVML's
// remainder has some MiB of the driver's own, too.
#define CT_OOM_CAUSE_OTHERS_PART 20u

struct ct_oom_cause {
    // The rounded request beyond the free memory; 0: enough was free, or it is not known how much.
    uint64_t missing;
    int exceeds_device; // the request is larger than the whole device
    // The request, if the free memory of PyTorch's pool would have been enough; or NULL.
    const struct ct_pool_growth *pool;
    // Not 0: it would have been enough.
    uint64_t idle_bytes;         // in PyTorch's segments without a block
    uint64_t others_bytes;       // held by other processes
    uint64_t mempool_idle_bytes; // idle in CUDA's memory pools
};

// The bytes that others hold, where they are a cause; else 0.
uint64_t ct_oom_cause_judge_others(const struct ct_oom_event *o, uint64_t missing, uint64_t bytes);
// `reason`: of the same event. `growths`: NULL if PyTorch's pool is not looked at.
struct ct_oom_cause ct_oom_cause_find(const struct ct_oom_event *o,
                                      const struct ct_oom_reason *reason,
                                      const struct ct_pool_growths *growths);

#endif

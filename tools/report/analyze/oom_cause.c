// SPDX-License-Identifier: Apache-2.0
// Compares the missing bytes with what PyTorch's pool, other processes and CUDA's pools hold.
#include "analyze/oom_cause.h"

static const struct ct_pool_growth *find_pool(const struct ct_oom_event *o,
                                              const struct ct_pool_growths *growths) {
    const struct ct_pool_growth *w = growths ? ct_pool_growth_find(growths, o->event) : NULL;
    return w && w->oom && w->cause != CT_GROWTH_NOT_ENOUGH_FREE ? w : NULL;
}

uint64_t ct_oom_cause_judge_others(const struct ct_oom_event *o, uint64_t missing, uint64_t bytes) {
    return bytes >= missing && bytes >= o->device_total / CT_OOM_CAUSE_OTHERS_PART ? bytes : 0;
}

struct ct_oom_cause ct_oom_cause_find(const struct ct_oom_event *o,
                                      const struct ct_oom_reason *reason,
                                      const struct ct_pool_growths *growths) {
    struct ct_oom_cause cause = {.missing = 0};
    const struct ct_breakdown *m = &o->split;
    const uint64_t total = o->device_total;
    if (reason->kind != CT_OOM_REASON_NOT_ENOUGH_FREE && reason->kind != CT_OOM_REASON_UNKNOWN)
        return cause;
    cause.exceeds_device = total && reason->rounded > total;
    if (reason->kind == CT_OOM_REASON_UNKNOWN)
        return cause;
    cause.missing = reason->rounded - reason->free;
    cause.pool = find_pool(o, growths);
    if (o->pool.known && o->pool.idle_bytes >= cause.missing)
        cause.idle_bytes = o->pool.idle_bytes;
    // (Host pages are no other process's, and NVML does not tell the two apart.)
    if (m->split_known && !m->is_host_node)
        cause.others_bytes = ct_oom_cause_judge_others(o, cause.missing, m->others);
    if (m->pool_idle >= cause.missing)
        cause.mempool_idle_bytes = m->pool_idle;
    return cause;
}

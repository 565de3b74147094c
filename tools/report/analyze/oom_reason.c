// SPDX-License-Identifier: Apache-2.0
// Compares what was asked for, in the driver's steps, with what was free.
#include "analyze/oom_reason.h"

struct ct_oom_reason ct_oom_reason_find(const struct ct_refusal *r, int budget) {
    struct ct_oom_reason v = {.why = CT_OOM_REASON_UNKNOWN};
    if (!ct_scan_is_device_memory(r)) {
        v.why = r->op == CT_OP_RESERVE ? CT_OOM_REASON_ADDRESS_SPACE : CT_OOM_REASON_HOST_MEMORY;
        return v;
    }
    // Seen on all recent GPUs: blocks of 2 MiB; allocations under 1 MiB share one, in steps of 512 bytes.
    if (r->bytes_known && r->bytes <= UINT64_MAX / 2) {
        const int whole = r->bytes >= UINT64_C(1) << 20 || r->op == CT_OP_BLOCK_OOM;
        v.step = whole ? UINT64_C(2) << 20 : 512;
        v.rounded = (r->bytes + v.step - 1) / v.step * v.step;
        v.rounded_known = 1;
    } else if (r->bytes_known) {
        v.rounded = r->bytes;
        v.step = 1;
        v.rounded_known = 1;
    }
    if (budget) {
        v.why = CT_OOM_REASON_BUDGET;
        v.free = r->split.free;
        v.free_known = 1;
        return v;
    }
    if (r->op == CT_OP_BLOCK_OOM && !r->driver_refused) {
        v.why = CT_OOM_REASON_POOL_LIMIT;
        return v;
    }
    v.free_known = r->reading_known || r->split.used_known;
    v.free = r->reading_known ? r->free : r->split.free;
    if (v.free_known && v.rounded_known)
        v.why = v.rounded > v.free ? CT_OOM_REASON_NOT_ENOUGH_FREE : CT_OOM_REASON_ENOUGH_FREE;
    return v;
}

const char *ct_oom_reason_name(enum ct_oom_reason_kind why) {
    static const char *const names[] = {
        [CT_OOM_REASON_UNKNOWN] = "unknown",        [CT_OOM_REASON_NOT_ENOUGH_FREE] = "not-enough-free",
        [CT_OOM_REASON_ENOUGH_FREE] = "enough-was-free", [CT_OOM_REASON_HOST_MEMORY] = "host-memory",
        [CT_OOM_REASON_ADDRESS_SPACE] = "address-space",  [CT_OOM_REASON_BUDGET] = "budget",
        [CT_OOM_REASON_POOL_LIMIT] = "pool-limit",
    };
    return names[why];
}

// SPDX-License-Identifier: Apache-2.0
// Compares what was asked for, in the driver's steps, with what was free.
#include "analyze/oom_reason.h"

struct ct_verdict ct_verdict_of(const struct ct_refusal *r, int budget) {
    struct ct_verdict v = {.why = CT_WHY_UNKNOWN};
    if (!ct_refusal_of_device(r)) {
        v.why = r->op == CT_OP_RESERVE ? CT_WHY_ADDRESS : CT_WHY_HOST;
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
        v.why = CT_WHY_BUDGET;
        v.free = r->split.free;
        v.free_known = 1;
        return v;
    }
    if (r->op == CT_OP_BLOCK_OOM && !r->driver_refused) {
        v.why = CT_WHY_POOL;
        return v;
    }
    v.free_known = r->reading_known || r->split.used_known;
    v.free = r->reading_known ? r->free : r->split.free;
    if (v.free_known && v.rounded_known)
        v.why = v.rounded > v.free ? CT_WHY_FULL : CT_WHY_ENOUGH;
    return v;
}

const char *ct_why_name(enum ct_why why) {
    static const char *const names[] = {
        [CT_WHY_UNKNOWN] = "unknown",        [CT_WHY_FULL] = "not-enough-free",
        [CT_WHY_ENOUGH] = "enough-was-free", [CT_WHY_HOST] = "host-memory",
        [CT_WHY_ADDRESS] = "address-space",  [CT_WHY_BUDGET] = "budget",
        [CT_WHY_POOL] = "pool-limit",
    };
    return names[why];
}

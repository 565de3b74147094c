// SPDX-License-Identifier: Apache-2.0
// Compares the request, rounded up to the driver's steps, with the free memory.
#include "analyze/oom_reason.h"

static void round_request(struct ct_oom_reason *reason, const struct ct_oom_event *o) {
    if (!o->bytes_known)
        return;
    reason->rounded_known = 1;
    reason->step = 1;
    reason->rounded = o->bytes;
    if (o->bytes > UINT64_MAX / 2)
        return;
    // Observed on all recent GPUs: blocks of 2 MiB; allocations under 1 MiB share one, in steps of
    // 512 bytes.
    const int whole = o->bytes >= UINT64_C(1) << 20 || o->op == CT_OP_BLOCK_OOM;
    reason->step = whole ? UINT64_C(2) << 20 : 512;
    reason->rounded = (o->bytes + reason->step - 1) / reason->step * reason->step;
    // PyTorch asks for whole segments: 20 MiB for a request below 10 MiB.
    if (o->segment_bytes > reason->rounded)
        reason->rounded = o->segment_bytes;
}

struct ct_oom_reason ct_oom_reason_find(const struct ct_oom_event *o, int budget) {
    struct ct_oom_reason reason = {.kind = CT_OOM_REASON_UNKNOWN};
    if (!ct_incidents_is_device_memory(o)) {
        reason.kind =
            o->op == CT_OP_RESERVE ? CT_OOM_REASON_ADDRESS_SPACE : CT_OOM_REASON_HOST_MEMORY;
        return reason;
    }
    round_request(&reason, o);
    if (budget) {
        reason.kind = CT_OOM_REASON_BUDGET;
        reason.free = o->split.free;
        reason.free_known = 1;
        return reason;
    }
    if (o->op == CT_OP_BLOCK_OOM && !o->driver_failed) {
        reason.kind = CT_OOM_REASON_POOL_LIMIT;
        return reason;
    }
    reason.free_known = o->reading_known || o->split.used_known;
    reason.free = o->reading_known ? o->free : o->split.free;
    if (!reason.rounded_known)
        reason.kind = CT_OOM_REASON_SIZE_UNKNOWN;
    else if (!reason.free_known)
        reason.kind = CT_OOM_REASON_UNKNOWN;
    else if (reason.rounded > reason.free)
        reason.kind = CT_OOM_REASON_NOT_ENOUGH_FREE;
    else
        reason.kind = CT_OOM_REASON_ENOUGH_FREE;
    return reason;
}

const struct ct_oom_event *ct_oom_reason_find_call(const struct ct_incidents *n, size_t incident,
                                                   int device, enum ct_oom_reason_kind kind) {
    const struct ct_oom_event *found = NULL;
    for (uint32_t at = n->list[incident].first + 1; at; at = n->ooms[at - 1].next_part) {
        const struct ct_oom_event *o = &n->ooms[at - 1];
        if (o->device == device && o->op != CT_OP_BLOCK_OOM &&
            ct_oom_reason_find(o, 0).kind == kind)
            found = o;
    }
    return found;
}

struct ct_human_text ct_oom_reason_missing(const struct ct_oom_reason *reason,
                                           enum ct_human_units units) {
    const uint64_t parts[] = {reason->rounded - reason->free, reason->free};
    struct ct_human_text shown[2];
    ct_human_bytes_of_parts(shown, parts, 2, reason->rounded, units, 0);
    return shown[0];
}

const char *ct_oom_reason_name(enum ct_oom_reason_kind kind) {
    static const char *const names[] = {
        [CT_OOM_REASON_UNKNOWN] = "unknown",
        [CT_OOM_REASON_SIZE_UNKNOWN] = "size-unknown",
        [CT_OOM_REASON_NOT_ENOUGH_FREE] = "not-enough-free",
        [CT_OOM_REASON_ENOUGH_FREE] = "enough-was-free",
        [CT_OOM_REASON_HOST_MEMORY] = "host-memory",
        [CT_OOM_REASON_ADDRESS_SPACE] = "address-space",
        [CT_OOM_REASON_BUDGET] = "budget",
        [CT_OOM_REASON_POOL_LIMIT] = "pool-limit",
    };
    return names[kind];
}

// SPDX-License-Identifier: Apache-2.0
// Compares the request, rounded up to the driver's steps, with the free memory.
#include "analyze/oom_reason.h"

// ---- why it failed ------------------------------------------------------------------------------

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

// ---- what would have been enough ----------------------------------------------------------------
// Compares the missing bytes with what PyTorch's pool, other processes and CUDA's pools hold.

// Other processes are only named as a cause if they hold at least this part of the device: NVML's
// remainder has some MiB of the driver's own, too.
#define OTHERS_PART 20u

static const struct ct_pool_growth *find_pool(const struct ct_oom_event *o,
                                              const struct ct_pool_growths *growths) {
    const struct ct_pool_growth *w = growths ? ct_pool_growth_find(growths, o->event) : NULL;
    return w && w->oom && w->cause != CT_GROWTH_NOT_ENOUGH_FREE ? w : NULL;
}

uint64_t ct_oom_cause_judge_others(const struct ct_oom_event *o, uint64_t missing, uint64_t bytes) {
    return bytes >= missing && bytes >= o->device_total / OTHERS_PART ? bytes : 0;
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

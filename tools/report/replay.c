// SPDX-License-Identifier: Apache-2.0
// What is alive by live.h, and beside it what the readings of the devices said.
#include "replay.h"

#include "memory.h"

static void *resize(void *user, void *old, size_t old_bytes, size_t new_bytes) {
    (void)user;
    (void)old_bytes;
    if (!new_bytes) {
        free(old);
        return NULL;
    }
    return ct_resize(old, new_bytes, 1);
}

void ct_replay_init(struct ct_replay *r,
                    void (*changed)(void *user, const struct ct_object *object, int sign),
                    void *user) {
    memset(r, 0, sizeof *r);
    ct_live_init(&r->live, resize, user);
    r->live.changed = changed;
}

void ct_replay_forget(struct ct_replay *r) {
    free(r->live.table);
    r->live.table = NULL;
    r->live.capacity = r->live.used = 0;
}

void ct_replay_free(struct ct_replay *r) {
    ct_replay_forget(r);
    memset(r, 0, sizeof *r);
}

static void read_device(struct ct_replay *r, const struct ct_event *e, int index) {
    struct ct_device_now *d = &r->device[index];
    const int nvml = CT_HAS(e, flags) && e->flags & CT_FLAG_NVML;
    uint64_t total = e->total_bytes;
    if (!nvml) {
        d->total = total;
        if (!d->free_known || e->free_bytes < d->free_min) {
            d->free_min = e->free_bytes;
            d->free_min_t_ns = e->t_ns;
        }
        d->free_known = 1;
    } else if (d->total) {
        total = d->total; // NVML counts what the driver keeps for itself; CUDA's total does not
    }
    const uint64_t tracked = ct_live_tracked(&r->live.device[index]);
    d->last = (struct ct_reading){.known = 1,
                                  .free = e->free_bytes,
                                  .total = total,
                                  .used = total > e->free_bytes ? total - e->free_bytes : 0,
                                  .tracked = tracked,
                                  .t_ns = e->t_ns};
    if (nvml && CT_HAS(e, process_bytes)) {
        d->process_known = 1;
        d->process_untracked = e->process_bytes > tracked ? e->process_bytes - tracked : 0;
    }
}

static void read_cost(struct ct_device_now *d, const struct ct_event *e) {
    const uint64_t cost =
        e->free_before_bytes > e->free_bytes ? e->free_before_bytes - e->free_bytes : 0;
    if (e->op == CT_OP_CONTEXT_CREATE) {
        d->context_bytes += cost;
        d->context_known = 1;
    } else if (e->op == CT_OP_MODULE_LOAD) {
        d->module_bytes += cost;
        d->module_known = 1;
    } else if (e->op == CT_OP_LIMIT) {
        d->limit_bytes += cost;
        d->limit_known = 1;
    }
}

void ct_replay_apply(struct ct_replay *r, const struct ct_event *e, uint64_t number) {
    const int index = ct_device_index(e);
    ct_live_apply(&r->live, e, number);
    if (CT_HAS(e, device))
        r->device[index].seen = 1;
    if (CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes))
        read_device(r, e, index);
    if (CT_HAS(e, free_bytes) && CT_HAS(e, free_before_bytes) && (!CT_HAS(e, result) || !e->result))
        read_cost(&r->device[index], e);
}

struct ct_split ct_replay_split(const struct ct_replay *r, int device) {
    const struct ct_device_now *d = &r->device[device];
    struct ct_split s = {.tracked = ct_live_tracked(&r->live.device[device]),
                         .managed = r->live.device[device].managed_bytes};
    if (!d->last.known)
        return s;
    const struct ct_reading *l = &d->last;
    const int64_t since = (int64_t)(s.tracked - l->tracked);
    s.used_known = 1;
    s.moved_on = since != 0;
    s.reading_t_ns = l->t_ns;
    s.total = l->total;
    s.used = since < 0 && (uint64_t)-since > l->used ? 0 : l->used + (uint64_t)since;
    s.free = since == 0 ? l->free : s.total > s.used ? s.total - s.used : 0;
    s.unexplained = s.used > s.tracked ? s.used - s.tracked : 0;
    s.split_known = d->process_known;
    s.untracked = d->process_untracked < s.unexplained ? d->process_untracked : s.unexplained;
    s.others = s.unexplained - s.untracked;
    return s;
}

// SPDX-License-Identifier: Apache-2.0
#include "analyze/moment.h"

static uint64_t end_of(const struct ct_scan *s, const struct ct_trace *t) {
    return s->request.to_ns < t->t_last_ns ? s->request.to_ns : t->t_last_ns;
}

struct ct_moment ct_moment_find(const struct ct_scan *s, const struct ct_trace *t,
                                enum ct_moment_kind kind, int device, const struct ct_instant *at) {
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    const struct ct_device_scan *d = device >= 0 ? &s->device[device] : NULL;
    const uint64_t end = end_of(s, t);
    if (kind == CT_MOMENT_TIME)
        return (struct ct_moment){kind, -1, at->event, at->t_ns < end ? at->t_ns : end};
    if (kind == CT_MOMENT_OOM && crossing)
        return (struct ct_moment){kind, crossing->device, crossing->event, crossing->t_ns};
    if (kind != CT_MOMENT_END && d && d->peak_known)
        return (struct ct_moment){CT_MOMENT_PEAK, device, d->peak_event, d->peak_t_ns};
    return (struct ct_moment){CT_MOMENT_END, -1, UINT64_MAX, end};
}

const char *ct_moment_kind_name(enum ct_moment_kind kind) {
    static const char *const names[] = {"oom", "peak", "end", "time"};
    return names[kind];
}

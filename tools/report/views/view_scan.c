// SPDX-License-Identifier: Apache-2.0
// The options of a view become the request of a scan.
#include "views/view_scan.h"

#include <inttypes.h>

struct ct_scan_request ct_view_scan_request(const struct ct_view *v) {
    return (struct ct_scan_request){.from_ns = v->from_ns,
                                    .to_ns = v->to_ns,
                                    .device = v->options->device,
                                    .capacity = v->options->capacity,
                                    .phases = v->phases};
}

struct ct_scan_request ct_view_scan_request_pools(const struct ct_view *v) {
    struct ct_scan_request request = ct_view_scan_request(v);
    request.points = CT_VIEW_CURVE_POINTS;
    return request;
}

void ct_view_scan_run(const struct ct_view *v, struct ct_scan *s,
                      const struct ct_scan_request *request) {
    char text[100];
    const int device = v->options->device;
    ct_scan_run(s, v->trace, request);
    if (device < 0 || s->device[device].seen)
        return;
    (void)snprintf(text, sizeof text, "warning: --device=%d: no event is of this GPU", device);
    ct_terminal_warn(text);
}

uint64_t ct_view_scan_lost_events(const struct ct_view *v, uint64_t counted) {
    uint64_t total = 0;
    (void)ct_definitions_info_number(&v->trace->definitions, "recorder.lost_events", &total);
    return (total > counted ? total : counted) + v->trace->missing_events;
}

int ct_view_scan_main_device(const struct ct_view *v, const struct ct_scan *s) {
    int best = -1;
    if (v->options->device >= 0)
        return v->options->device;
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].seen && (best < 0 || s->device[d].peak_bytes > s->device[best].peak_bytes))
            best = d;
    return best;
}

enum ct_moment_kind ct_view_scan_wanted_moment(const struct ct_arguments *o,
                                               enum ct_moment_kind usual) {
    if (o->at_end)
        return CT_MOMENT_END;
    switch (o->at.kind) {
    case CT_TIME_NONE:
        return usual;
    case CT_TIME_OF_CROSSING:
        return CT_MOMENT_OOM;
    case CT_TIME_OF_PEAK:
        return CT_MOMENT_PEAK;
    default:
        return CT_MOMENT_TIME;
    }
}

// SPDX-License-Identifier: Apache-2.0
// The options of a view become the request of a scan.
#include "answer/view_scan.h"

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
                      const struct ct_scan_request *request, const struct ct_listener *beside) {
    ct_question_scan(s, v->trace, request, beside);
    ct_view_scan_warn_device(v, s);
}

int ct_view_scan_check_device(const struct ct_view *v, struct ct_error *error) {
    const int device = v->options->device;
    struct ct_scan s;
    uint64_t total;
    if (device < 0 ||
        ct_definitions_device_number(&v->trace->definitions, device, "total_bytes", &total))
        return 0;
    const struct ct_scan_request whole = {.to_ns = UINT64_MAX, .device = device};
    ct_question_scan(&s, v->trace, &whole, NULL);
    const int is_seen = s.device[device].seen;
    ct_scan_free(&s);
    return is_seen
               ? 0
               : ct_error_set(error, CT_EXIT_USAGE, "%.200s: --device=%d: no event is of this GPU",
                              v->trace->source.name, device);
}

void ct_view_scan_warn_device(const struct ct_view *v, const struct ct_scan *s) {
    char text[100];
    const int device = v->options->device;
    if (device < 0 || s->device[device].seen)
        return;
    (void)snprintf(text, sizeof text, "warning: --device=%d: no event is of this GPU", device);
    ct_terminal_warn(text);
}

int ct_view_scan_main_device(const struct ct_view *v, const struct ct_scan *s) {
    return v->options->device >= 0 ? v->options->device : ct_scan_find_fullest(s);
}

int ct_view_scan_is_moment_asked(const struct ct_arguments *o) {
    return o->at_end || o->at.kind != CT_TIME_NONE;
}

enum ct_moment_kind ct_view_scan_wanted_moment(const struct ct_arguments *o,
                                               enum ct_moment_kind usual) {
    if (o->at_end)
        return CT_MOMENT_END;
    switch (ct_time_kind_of(&o->at)) {
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

static void warn_moment(const struct ct_view *v, enum ct_moment_kind described) {
    char text[100];
    (void)snprintf(text, sizeof text, "warning: --at: there is no such moment; %s describes the %s",
                   ct_argument_table_name(v->options->command), ct_moment_kind_name(described));
    ct_terminal_warn(text);
}

struct ct_moment ct_view_scan_find_moment(const struct ct_view *v, const struct ct_scan *s,
                                          enum ct_moment_kind usual) {
    const enum ct_moment_kind wanted = ct_view_scan_wanted_moment(v->options, usual);
    const struct ct_moment m =
        ct_moment_find(s, v->trace, wanted, ct_view_scan_main_device(v, s), &v->at);
    if (m.kind != wanted && ct_view_scan_is_moment_asked(v->options))
        warn_moment(v, m.kind);
    return m;
}

struct ct_moment ct_view_scan_asked_moment(const struct ct_view *v, const struct ct_scan *s) {
    const enum ct_moment_kind kind = ct_view_scan_wanted_moment(v->options, CT_MOMENT_END);
    const uint64_t last = v->trace->t_last_ns, end = v->to_ns < last ? v->to_ns : last;
    struct ct_scan own;
    if (kind == CT_MOMENT_END)
        return (struct ct_moment){kind, -1, UINT64_MAX, end};
    if (kind == CT_MOMENT_TIME)
        return (struct ct_moment){kind, -1, v->at.event, v->at.t_ns < end ? v->at.t_ns : end};
    if (s)
        return ct_view_scan_find_moment(v, s, kind);
    const struct ct_scan_request request = ct_view_scan_request(v); // as top finds it
    ct_question_scan(&own, v->trace, &request, NULL);
    const struct ct_moment m = ct_view_scan_find_moment(v, &own, kind);
    ct_scan_free(&own);
    return m;
}

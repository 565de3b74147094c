// SPDX-License-Identifier: Apache-2.0
// Formats values with the options of a view.
#include "views/label.h"

#include "replay/replay.h"

struct ct_short ct_label_time(const struct ct_view *v, uint64_t t_ns) {
    const uint64_t start = v->trace->start_ns;
    return ct_elapsed(t_ns > start ? t_ns - start : 0);
}

struct ct_short ct_label_size(const struct ct_view *v, uint64_t bytes) {
    return ct_bytes(bytes, v->options->units);
}

struct ct_short ct_label_device(int device) {
    struct ct_short s = {"GPU ?"};
    if (device < CT_MAX_DEVICES)
        (void)snprintf(s.text, sizeof s.text, "GPU %d", device);
    return s;
}

struct ct_short ct_label_wall_clock(const struct ct_view *v, uint64_t t_ns) {
    uint64_t monotonic, realtime;
    struct ct_short none = {""};
    if (!ct_names_number(&v->trace->names, "clock.monotonic_ns", &monotonic) ||
        !ct_names_number(&v->trace->names, "clock.realtime_ns", &realtime))
        return none;
    return ct_utc(realtime + (t_ns - monotonic));
}

void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size) {
    const struct ct_string *s = &v->trace->names.strings[api];
    if (api)
        ct_clean(to, size, s->at, s->length);
    else
        (void)snprintf(to, size, "an unknown call");
}

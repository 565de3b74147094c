// SPDX-License-Identifier: Apache-2.0
// Formats values with the options of a view.
#include "views/label.h"

#include "base/utf8.h"
#include "replay/replay.h"

struct ct_human_text ct_label_time(const struct ct_view *v, uint64_t t_ns) {
    const uint64_t start = v->trace->start_ns;
    return ct_human_elapsed(t_ns > start ? t_ns - start : 0);
}

struct ct_human_text ct_label_size(const struct ct_view *v, uint64_t bytes) {
    return ct_human_bytes(bytes, v->options->units);
}

struct ct_human_text ct_label_device(int device) {
    struct ct_human_text s = {"GPU ?"};
    if (device < CT_MAX_DEVICES)
        (void)snprintf(s.text, sizeof s.text, "GPU %d", device);
    return s;
}

struct ct_human_text ct_label_wall_clock(const struct ct_view *v, uint64_t t_ns) {
    uint64_t monotonic, realtime;
    struct ct_human_text none = {""};
    if (!ct_definitions_info_number(&v->trace->definitions, "clock.monotonic_ns", &monotonic) ||
        !ct_definitions_info_number(&v->trace->definitions, "clock.realtime_ns", &realtime))
        return none;
    return ct_human_utc(realtime + (t_ns - monotonic));
}

void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size) {
    const struct ct_string *s = &v->trace->definitions.strings[api];
    if (api)
        ct_utf8_sanitize(to, size, s->at, s->length);
    else
        (void)snprintf(to, size, "an unknown call");
}

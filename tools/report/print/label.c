// SPDX-License-Identifier: Apache-2.0
// Formats values with the options of a view.
#include "print/label.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/capacity.h"
#include "answer/time_range.h"
#include "base/utf8.h"
#include "read/device_kind.h"

#define DAY (UINT64_C(86400) * 1000000000)

struct ct_human_text ct_label_time(const struct ct_view *v, uint64_t t_ns) {
    const uint64_t start = v->trace->start_ns;
    return ct_human_elapsed(t_ns > start ? t_ns - start : 0);
}

struct ct_human_text ct_label_size(const struct ct_view *v, uint64_t bytes) {
    return ct_human_bytes(bytes, v->options->units);
}

// Cuts ".00" off: "24.00 GB" becomes "24 GB".
static struct ct_human_text shorten(struct ct_human_text s) {
    char *zeros = strstr(s.text, ".00 ");
    if (zeros)
        memmove(zeros, zeros + 3, strlen(zeros + 3) + 1);
    return s;
}

struct ct_human_text ct_label_budget(const struct ct_view *v) {
    const struct ct_arguments *o = v->options;
    const struct ct_human_text si = ct_human_bytes(o->capacity, CT_UNITS_SI),
                               iec = ct_human_bytes(o->capacity, CT_UNITS_IEC);
    if (o->units == CT_UNITS_BYTES || o->capacity < 1000)
        return ct_label_size(v, o->capacity);
    return o->capacity_decimal ? ct_human_format("%.16s = %.16s", shorten(si).text, iec.text)
                               : ct_human_format("%.16s = %.16s", shorten(iec).text, si.text);
}

struct ct_human_text ct_label_device(int device) {
    return device < CT_MAX_DEVICES ? ct_human_format("GPU %d", device) : ct_human_format("GPU ?");
}

struct ct_label_device ct_label_device_in_full(const struct ct_view *v, int device,
                                               const struct ct_replay *state) {
    struct ct_label_device s;
    char kind[80];
    uint64_t bytes = 0;
    const struct ct_device_kind is = ct_device_kind_read(&v->trace->definitions, device);
    ct_device_kind_describe(&is, kind, sizeof kind);
    int n = snprintf(s.text, sizeof s.text, "%s", ct_label_device(device).text);
    if (!*kind)
        return s;
    if (state)
        bytes = ct_capacity_find(v->trace, state, device).bytes;
    n += snprintf(s.text + n, sizeof s.text - (size_t)n, " (%s%s", kind, bytes ? ", " : "");
    (void)snprintf(s.text + n, sizeof s.text - (size_t)n, "%s)",
                   bytes ? ct_label_size(v, bytes).text : "");
    return s;
}

struct ct_human_text ct_label_utc(const struct ct_view *v, uint64_t t_ns, int with_date) {
    const struct ct_trace *t = v->trace;
    uint64_t utc, first, last;
    if (!ct_time_range_utc(t, t_ns, &utc))
        return (struct ct_human_text){""};
    (void)ct_time_range_utc(t, t->start_ns, &first);
    (void)ct_time_range_utc(t, t->t_last_ns, &last);
    if (with_date || first / DAY != last / DAY)
        return ct_human_date_and_time(utc);
    return ct_human_time_of_day(utc);
}

void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size) {
    const struct ct_string *s = &v->trace->definitions.strings[api];
    if (api)
        ct_utf8_sanitize(to, size, s->at, s->length);
    else
        (void)snprintf(to, size, "an unknown call");
}

// ---- results of calls ---------------------------------------------------------------------------

static const char *find_driver_name(int32_t result) {
    switch (result) {
#define CT_DRIVER_RESULT(number, name) \
    case number:                       \
        return name;
#include "print/result_names.def"
    default:
        return NULL;
    }
}

static const char *find_runtime_name(int32_t result) {
    switch (result) {
#define CT_RUNTIME_RESULT(number, name) \
    case number:                        \
        return name;
#include "print/result_names.def"
    default:
        return NULL;
    }
}

// Writes "CUDA_ERROR_OUT_OF_MEMORY (2)", or "cudaErrorMemoryAllocation (2)" for a function of the
// runtime; of a number without a name "result 4711". `api`: the name of the function that returned
// it, of `length` bytes.
static void format_result(int32_t result, const char *api, size_t length, char *to, size_t size) {
    static const char runtime[] = "cuda";
    const size_t n = sizeof runtime - 1;
    const int is_runtime = length > n && memcmp(api, runtime, n) == 0;
    const char *name = is_runtime ? find_runtime_name(result) : find_driver_name(result);
    if (name)
        (void)snprintf(to, size, "%s (%" PRId32 ")", name, result);
    else
        (void)snprintf(to, size, "result %" PRId32, result);
}

void ct_label_result(const struct ct_view *v, uint32_t api, int32_t result, char *to, size_t size) {
    const struct ct_string *s = &v->trace->definitions.strings[api];
    format_result(result, s->at, api ? s->length : 0, to, size);
}

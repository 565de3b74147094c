// SPDX-License-Identifier: Apache-2.0
// OpenMetrics 1.0: the figures of the end of the trace and of the whole of it, with the time of the
// end where it is known.
#include <inttypes.h>

#include "base/openmetrics.h"
#include "export/export.h"
#include "read/event_names.h"

enum metric {
#define CT_METRIC(ID, name, unit, type, help) ID,
#include "export/openmetrics.def"
    METRICS
};
static const struct ct_openmetrics_family metrics[METRICS] = {
#define CT_METRIC(ID, name, unit, type, help) {name, unit, type, help},
#include "export/openmetrics.def"
};

struct page {
    struct ct_export *x;
    struct ct_openmetrics to;
    char time[40]; // of the end
};

static void begin(const struct page *p, enum metric m) {
    ct_openmetrics_begin(&p->to, &metrics[m]);
}

// `label` and `text` are words of this program.
static void put(const struct page *p, enum metric m, const char *label, const char *text,
                uint64_t value) {
    ct_openmetrics_put_name(&p->to, &metrics[m]);
    if (label)
        fprintf(p->to.out, "{%s=\"%s\"}", label, text);
    ct_openmetrics_put_number(&p->to, value);
    p->x->entries++;
}

static void put_of_device(const struct page *p, enum metric m, int device, uint64_t value) {
    char text[16] = "unknown";
    if (device < CT_MAX_DEVICES)
        (void)snprintf(text, sizeof text, "%d", device);
    put(p, m, "device", text, value);
}

// The value of a metric of devices. Returns 0 if it is not known.
static int get_value(const struct ct_export *x, enum metric m, int device, uint64_t *value) {
    const struct ct_device_scan *d = &x->scan.device[device];
    const struct ct_live_device *live = &x->scan.end.live.device[device];
    const struct ct_breakdown split = ct_replay_split(&x->scan.end, device);
    switch (m) {
    case CAPACITY:
        *value = split.total;
        return split.used_known;
    case FREE:
        *value = split.free;
        return split.used_known;
    case USED:
        *value = split.used;
        return split.used_known;
    case LIVE:
        *value = live->live_bytes;
        return 1;
    case PEAK:
        *value = d->peak_bytes;
        return d->peak_known;
    case LIVE_COUNT:
        *value = live->live_allocations;
        return 1;
    case TORCH_ALLOCATED:
        *value = live->reported_allocated;
        return live->reported != 0;
    case TORCH_RESERVED:
        *value = live->reported_reserved;
        return live->reported != 0;
    default:
        *value = d->allocations;
        return m == ALLOCATIONS;
    }
}

static void put_devices(const struct page *p, enum metric m) {
    uint64_t value;
    begin(p, m);
    for (int d = 0; d < CT_DEVICES; d++)
        if (p->x->scan.device[d].seen && get_value(p->x, m, d, &value))
            put_of_device(p, m, d, value);
}

static void put_events(const struct page *p) {
    begin(p, EVENTS);
    for (uint32_t op = 1; op < CT_OPS_END; op++)
        if (p->x->scan.ops[op])
            put(p, EVENTS, "op", ct_event_names_op(op), p->x->scan.ops[op]);
}

static void put_failed(const struct page *p) {
    const struct ct_incident_counts n = ct_incidents_count(&p->x->scan.incidents);
    begin(p, FAILED);
    put(p, FAILED, "outcome", "failed", n.failed - n.recovered_later);
    put(p, FAILED, "outcome", "recovered_later", n.recovered_later);
    put(p, FAILED, "outcome", "retried", n.retried);
}

static void put_label(const struct page *p, const char *label, const struct ct_string *value) {
    char text[CT_EXPORT_NAME];
    ct_export_text(text, value->at, value->length);
    fprintf(p->to.out, ",%s=\"", label);
    ct_openmetrics_put_text(&p->to, text);
    putc('"', p->to.out);
}

static void put_info(const struct page *p) {
    const struct ct_definitions *n = &p->x->trace->definitions;
    const struct ct_string *release = ct_definitions_info(n, "nvidia.driver_version");
    begin(p, INFO);
    for (int d = 0; d < CT_MAX_DEVICES; d++) {
        const struct ct_string *name = ct_definitions_device_info(n, d, "name");
        if (!name || !p->x->scan.device[d].seen)
            continue;
        ct_openmetrics_put_name(&p->to, &metrics[INFO]);
        fprintf(p->to.out, "{device=\"%d\"", d);
        put_label(p, "name", name);
        if (release)
            put_label(p, "driver", release);
        putc('}', p->to.out);
        ct_openmetrics_put_number(&p->to, 1);
    }
}

static void put_start(const struct page *p) {
    const struct ct_trace *t = p->x->trace;
    uint64_t utc_ns;
    if (!ct_clocks_utc(&p->x->clocks, t->start_ns, &utc_ns))
        return;
    begin(p, START);
    ct_openmetrics_put_name(&p->to, &metrics[START]);
    ct_openmetrics_put_seconds(&p->to, utc_ns);
}

int ct_export_write_openmetrics(struct ct_export *x, struct ct_error *error) {
    struct page p = {.x = x};
    // (of a trace without an event, what is known is of its start)
    const uint64_t last = x->trace->t_last_ns ? x->trace->t_last_ns : x->trace->start_ns;
    const uint64_t end = x->to_ns < last ? x->to_ns : last;
    uint64_t ns;
    (void)error;
    if (ct_clocks_utc(&x->clocks, end, &ns))
        (void)snprintf(p.time, sizeof p.time, " %" PRIu64 ".%03u", ns / 1000000000,
                       (unsigned)(ns / 1000000 % 1000));
    p.to = (struct ct_openmetrics){.out = x->out, .time = p.time};
    for (enum metric m = CAPACITY; m <= TORCH_RESERVED; m++)
        put_devices(&p, m);
    begin(&p, HOST);
    put(&p, HOST, NULL, NULL, x->scan.end.live.host_bytes);
    put_devices(&p, ALLOCATIONS);
    put_events(&p);
    put_failed(&p);
    begin(&p, LOST);
    put(&p, LOST, NULL, NULL, ct_trace_count_unrecorded(x->trace, x->scan.lost));
    put_start(&p);
    put_info(&p);
    ct_openmetrics_end(&p.to);
    return 0;
}

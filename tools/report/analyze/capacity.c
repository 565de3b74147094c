// SPDX-License-Identifier: Apache-2.0
// Picks the smallest capacity that any source reports, because that is the one that allocations run
// into.
#include "analyze/capacity.h"

static uint64_t read_fact(const struct ct_trace *t, int device, const char *name) {
    uint64_t value = 0;
    if (device < CT_MAX_DEVICES)
        (void)ct_definitions_device_number(&t->definitions, device, name, &value);
    return value;
}

struct ct_capacity ct_capacity_find(const struct ct_trace *t, const struct ct_replay *r,
                                    int device) {
    struct ct_capacity c = {.total = read_fact(t, device, "total_bytes"),
                            .meminfo = read_fact(t, device, "meminfo_total_bytes"),
                            .nvml = read_fact(t, device, "nvml_total_bytes")};
    if (!c.meminfo)
        c.meminfo = r->readings.device[device].total;
    const uint64_t values[] = {c.meminfo, c.total, c.nvml};
    static const char *const names[] = {"cuMemGetInfo", "cuDeviceTotalMem", "NVML"};
    for (int i = 0; i < 3; i++) {
        if (!values[i])
            continue;
        c.disagree |= c.bytes && values[i] != c.bytes;
        if (!c.bytes || values[i] < c.bytes) {
            c.bytes = values[i];
            c.source = names[i];
        }
    }
    if (!c.bytes && r->readings.device[device].last.known) {
        c.bytes = r->readings.device[device].last.total;
        c.source = "NVML";
    }
    return c;
}

const struct ct_string *ct_capacity_device_name(const struct ct_trace *t, int device) {
    const struct ct_string *s = ct_definitions_device_info(&t->definitions, device, "name");
    return s ? s : &t->definitions.strings[0];
}

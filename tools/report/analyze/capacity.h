// SPDX-License-Identifier: Apache-2.0
// How large a device is. Three sources say so, and they need not agree.
#ifndef CT_CAPACITY_H
#define CT_CAPACITY_H

#include "read/trace.h"
#include "replay/replay.h"

struct ct_capacity {
    uint64_t total, meminfo, nvml; // cuDeviceTotalMem, cuMemGetInfo, NVML; 0 = unknown
    uint64_t bytes;                // the one that binds: the smallest; 0 = unknown
    const char *binds;             // its name, or NULL
    int disagree;
};

struct ct_capacity ct_capacity_find(const struct ct_trace *t, const struct ct_replay *r, int device);
// Name of the device as recorded, or the unknown string.
const struct ct_string *ct_capacity_device_name(const struct ct_trace *t, int device);

#endif

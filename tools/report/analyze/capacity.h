// SPDX-License-Identifier: Apache-2.0
// The capacity of a device. Three sources report it, and they need not agree: a MIG slice or a
// limiter shows in only some of them.
#ifndef CT_CAPACITY_H
#define CT_CAPACITY_H

#include "read/trace.h"
#include "replay/replay.h"

struct ct_capacity {
    uint64_t total, meminfo, nvml; // cuDeviceTotalMem, cuMemGetInfo, NVML; 0 = unknown
    uint64_t bytes;                // the smallest of the three; 0 = unknown
    const char *source;            // the name of the source of `bytes`, or NULL
    int disagree;                  // the sources differ
};

struct ct_capacity ct_capacity_find(const struct ct_trace *t, const struct ct_replay *r,
                                    int device);
// The recorded name of the device, or the unknown string.
const struct ct_string *ct_capacity_device_name(const struct ct_trace *t, int device);

#endif

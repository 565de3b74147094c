// SPDX-License-Identifier: Apache-2.0
// The devices as NVML sees them, from outside of the program's own contexts and threads.
#ifndef CT_DEVICES_H
#define CT_DEVICES_H

#include <stdint.h>

// Whether there is a device to be sampled.
int ct_devices_any(void);

// Reads every device's memory through NVML and records what has changed. Writer thread only; loads
// libnvidia-ml.so.1 at its first call. Returns 0, or -ENODEV if there is no NVML (do not call
// again).
int ct_devices_sample(void);

// Capacity of a device as the driver told it, UINT64_MAX where unknown.
uint64_t ct_device_total(int ordinal);

void ct_devices_forked(void);

#endif

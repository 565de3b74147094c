// SPDX-License-Identifier: Apache-2.0
// The devices as NVML sees them, from outside of the program's own contexts and threads.
#ifndef CT_DEVICES_H
#define CT_DEVICES_H

#include <stdint.h>

#include <cutrace/format/format.h>

// A device for the sampler and for the line on stderr: the CUDA ordinal, its 16-byte UUID and the capacity that the
// driver reports. Any thread; the first call for an ordinal counts.
void ct_nvml_add_device(int ordinal, const unsigned char uuid[16], uint64_t total_bytes);

// Whether there is a device to be sampled.
int ct_nvml_has_devices(void);

// Reads every device's memory through NVML and hands what has changed to `record`, as an event each. Writer thread only;
// loads libnvidia-ml.so.1 at its first call. Returns 0, or -ENODEV if there is no NVML (do not call again).
int ct_nvml_sample(void (*record)(struct ct_event *));

// Capacity of a device as the driver told it, UINT64_MAX where unknown.
uint64_t ct_nvml_get_total_bytes(int ordinal);

void ct_nvml_reinit_child(void);

#endif

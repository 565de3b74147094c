// SPDX-License-Identifier: Apache-2.0
// Memory of the devices as NVML reports it: for all processes, and without a CUDA context of the
// program. CUDA devices in, MEMORY_SAMPLE events out.
#ifndef CT_WRITE_NVML_H
#define CT_WRITE_NVML_H

#include <stdint.h>

#include <cutrace/format/format.h>

// Adds a device: its CUDA ordinal, its UUID and the capacity that the driver reports. Any thread;
// for each ordinal, the first call counts.
void ct_nvml_add_device(int ordinal, const unsigned char uuid[16], uint64_t total_bytes);

// Whether a device was added. Any thread.
int ct_nvml_has_devices(void);

// Samples each device and passes an event to `record` if the sample differs from the last one.
// Loads libnvidia-ml.so.1 at the first call. Writer thread only. Returns 0, or -ENODEV if there is
// no NVML: do not call it again.
int ct_nvml_sample(void (*record)(struct ct_event *));

// The same for some devices (a bit for each ordinal), whether or not their samples differ.
int ct_nvml_sample_devices(uint64_t which, void (*record)(struct ct_event *));

// Whether a sample may give something: a device was added, and there may be an NVML. Any thread.
int ct_nvml_is_usable(void);

// Capacity of a device as the driver reported it, UINT64_MAX if that is not known. Any thread.
uint64_t ct_nvml_get_total_bytes(int ordinal);

void ct_nvml_reinit_child(void);

#endif

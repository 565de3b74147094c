// SPDX-License-Identifier: Apache-2.0
// What the driver says of a device: how much of its memory is free, and what it is (name, capacity,
// compute capability, a hash of the UUID).
#ifndef CT_DEVICE_INFO_H
#define CT_DEVICE_INFO_H

#include <stddef.h>
#include <stdint.h>

// ---- free memory ------------------------------------------------------------------------------

// How much memory of a device is free (cuMemGetInfo), and the memory-sample events that say so.

// Reads free and total bytes of the current context's device. Returns 1, or 0 if the driver fails
// or cannot be asked (it is not loaded, or a stream of the process is capturing).
int ct_mem_info_read(size_t *free_bytes, size_t *total_bytes);

// Whether the interval since the device's last sample (CUTRACE_SAMPLE_MS) is over.
int ct_mem_info_sample_is_due(int device, uint64_t now_ns);

// Publishes a memory-sample of the current context's device under the name `api`, at most one in an
// interval unless forced. Inside a recorded call only (hook_scope.h).
void ct_mem_info_sample(uint32_t api, int force);

// The same with figures that the host has just asked for; after a failed allocation of the thread
// in any case: PyTorch asks between the driver's failure and its own report of it.
void ct_mem_info_sample_given(uint32_t api, size_t free_bytes, size_t total_bytes);

// An allocation of the calling thread has failed.
void ct_mem_info_note_failure(void);

// ---- what a device is -------------------------------------------------------------------------

// Publishes what a device is (INFO device.N.*), the first time that the device is seen outside of a
// stream capture. Any thread at any time.
void ct_device_info_publish(int device);

#endif

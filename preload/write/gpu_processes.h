// SPDX-License-Identifier: Apache-2.0
// The processes on a device, as NVML lists them: PROCESS and PROCESS_GONE events where the list
// changes.
#ifndef CT_WRITE_GPU_PROCESSES_H
#define CT_WRITE_GPU_PROCESSES_H

#include <stdint.h>

#include <cutrace/format/format.h>

#include "write/nvml_library.h"

enum { CT_GPU_PROCESSES_DEVICES = 64 };

// All of these: writer thread only.

// Replaces what one of the lists of a device (an ordinal) says.
void ct_gpu_processes_set(int device, enum ct_nvml_list list, const struct ct_nvml_process *from,
                          unsigned n);
// What a process uses; CT_NVML_BYTES_UNKNOWN where it is not listed, or that is not said.
uint64_t ct_gpu_processes_get_bytes(int device, uint32_t pid);
// Passes an event to `record` for each process whose memory differs from its last event, and for
// each one that is listed no more: at most 32; the others come at the next call. `has_names`: the
// numbers are those of this process's /proc. All are repeated every 30 s, so that a reader of a
// part of the trace knows them, too.
void ct_gpu_processes_publish(int device, int has_names, void (*record)(struct ct_event *));
void ct_gpu_processes_reinit_child(void);

#endif

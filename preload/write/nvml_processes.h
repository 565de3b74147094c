// SPDX-License-Identifier: Apache-2.0
// Reads a list of processes from NVML, whatever the layout of its entries is.
#ifndef CT_WRITE_NVML_PROCESSES_H
#define CT_WRITE_NVML_PROCESSES_H

#include <stdint.h>

#include "write/nvml_library.h"

enum { CT_NVML_MOST_PROCESSES = 256 };
#define CT_NVML_BYTES_UNKNOWN UINT64_MAX

struct ct_nvml_process {
    uint32_t pid;
    uint64_t bytes; // CT_NVML_BYTES_UNKNOWN: NVML does not say
};

// Writer thread only. `to` has CT_NVML_MOST_PROCESSES entries. Returns NVML's result, *n entries if
// it is 0; -1: the entries have an unknown layout.
int ct_nvml_processes_read(const struct ct_nvml *nvml, enum ct_nvml_list list,
                           ct_nvml_device device, struct ct_nvml_process *to, unsigned *n);

#endif

// SPDX-License-Identifier: Apache-2.0
// An entry begins with the process's number and, at offset 8, its memory. Its size depends on the
// driver and not only on the version of the function: 16 bytes in version 1, 24 since version 2
// (two numbers of MIG), and 32 in version 3 of some releases of 535, which also wrote the memory
// that confidential computing protects (github.com/XuehaiPan/nvitop/pull/79; a version 3 with 16
// bytes: pull/226 there). So the size is read off: the buffer is filled with a pattern, and what
// NVML wrote ends after the last entry.
#include "write/nvml_processes.h"

#include <string.h>

enum { WIDEST = 32, PATTERN = 0xA5 };
static const unsigned sizes[] = {24, 16, WIDEST};

static _Alignas(8) unsigned char buffer[CT_NVML_MOST_PROCESSES * WIDEST];

static size_t find_end(void) {
    size_t end = sizeof buffer;
    while (end && buffer[end - 1] == PATTERN)
        end--;
    return end;
}

// The size of an entry; 0: unknown. A library may also clear the buffer first, all of it.
static unsigned find_size(unsigned n) {
    const size_t end = find_end();
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (end == (size_t)n * sizes[i] || end == (size_t)CT_NVML_MOST_PROCESSES * sizes[i])
            return sizes[i];
    return 0;
}

int ct_nvml_processes_read(const struct ct_nvml *nvml, enum ct_nvml_list list,
                           ct_nvml_device device, struct ct_nvml_process *to, unsigned *n) {
    *n = CT_NVML_MOST_PROCESSES;
    if (!nvml->processes[list])
        return CT_NVML_NOT_SUPPORTED;
    memset(buffer, PATTERN, sizeof buffer);
    const int rc = nvml->processes[list](device, n, buffer);
    if (rc != CT_NVML_SUCCESS)
        return rc;
    const unsigned size = *n && *n <= CT_NVML_MOST_PROCESSES ? find_size(*n) : 0;
    if (*n && !size)
        return -1;
    for (unsigned i = 0; i < *n; i++) {
        unsigned long long used;
        memcpy(&to[i].pid, buffer + (size_t)i * size, sizeof to[i].pid);
        memcpy(&used, buffer + (size_t)i * size + 8, sizeof used);
        to[i].bytes = used;
    }
    return CT_NVML_SUCCESS;
}

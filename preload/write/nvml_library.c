// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "write/nvml_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/files.h"
#include "base/loader_gate.h"
#include "base/real_dlsym.h"

// ---- the library ------------------------------------------------------------------------------

// The newest version of each function first.
static const struct {
    size_t to;
    const char *names[3];
} functions[] = {
#define TO(member) offsetof(struct ct_nvml, member)
    {TO(init), {"nvmlInit_v2"}},
    {TO(handle_by_uuid), {"nvmlDeviceGetHandleByUUID"}},
    {TO(memory), {"nvmlDeviceGetMemoryInfo"}},
    {TO(processes[CT_NVML_COMPUTE]),
     {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
      "nvmlDeviceGetComputeRunningProcesses"}},
    {TO(processes[CT_NVML_GRAPHICS]),
     {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
      "nvmlDeviceGetGraphicsRunningProcesses"}},
    {TO(processes[CT_NVML_MPS]),
     {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
      "nvmlDeviceGetMPSComputeRunningProcesses"}},
    {TO(index), {"nvmlDeviceGetIndex"}},
    {TO(release), {"nvmlSystemGetDriverVersion"}},
    {TO(numa_node), {"nvmlDeviceGetNumaNodeId"}},
    {TO(mig_mode), {"nvmlDeviceGetMigMode"}},
    {TO(is_mig), {"nvmlDeviceIsMigDeviceHandle"}},
    {TO(card_of_mig), {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle"}},
    {TO(gpu_instance), {"nvmlDeviceGetGpuInstanceId"}},
    {TO(compute_instance), {"nvmlDeviceGetComputeInstanceId"}},
#undef TO
};

static void *find(void *library, const char *const names[3]) {
    void *found = NULL;
    for (size_t i = 0; i < 3 && names[i] && !found; i++)
        found = ct_real_dlsym_get_libc()(library, names[i]);
    return found;
}

// Gives back what the C library keeps of a failed look-up for the thread's next dlerror (glibc's
// frees it at the second call). The writer thread may still be ending when a leak checker in the
// host looks at its memory, and would then report ours.
static void forget_error(void) {
    for (int i = 0; i < 2; i++)
        (void)dlerror();
}

// In a keeper: the loader opens files. (NVML opens its own in nvmlInit, for all its callers.)
static long load(void *to) {
    void *const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
        void *const found = find(library, functions[i].names);
        memcpy((char *)to + functions[i].to, &found, sizeof found);
    }
    forget_error();
    return 0;
}

int ct_nvml_library_open(struct ct_nvml *to) {
    memset(to, 0, sizeof *to);
    // A fork during dlopen would leave the child with locks of the loader held.
    if (ct_loader_gate_enter())
        return -EAGAIN;
    (void)ct_files_run(load, to);
    ct_loader_gate_leave();
    if (!to->init || !to->handle_by_uuid || !to->memory || to->init() != CT_NVML_SUCCESS)
        return -ENODEV;
    return 0;
}

// ---- processes --------------------------------------------------------------------------------

// An entry begins with the process's number and, at offset 8, its memory. Its size depends on the
// driver and not only on the version of the function: 16 bytes in version 1, 24 since version 2
// (two numbers of MIG), and 32 in version 3 of some releases of 535, which also wrote the memory
// that confidential computing protects (github.com/XuehaiPan/nvitop/pull/79; a version 3 with 16
// bytes: pull/226 there). So the size is read off: the buffer is filled with a pattern, and what
// NVML wrote ends after the last entry.

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

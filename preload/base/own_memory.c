// SPDX-License-Identifier: Apache-2.0
// By /proc/self/mem, which a thread of the process may always open, and no seccomp filter of a
// container forbids (process_vm_readv it may).
#include "base/own_memory.h"

#include <errno.h>
#include <fcntl.h>

#include "base/files.h"

static int memory = -1;

int ct_own_memory_open(void) {
    memory = ct_open("/proc/self/mem", O_RDONLY);
    return memory < 0 ? -errno : 0;
}

void ct_own_memory_close(void) {
    ct_close(memory);
    memory = -1;
}

size_t ct_own_memory_read(uint64_t address, void *to, size_t n) {
    const ssize_t got = ct_pread(memory, to, n, (off_t)address);
    return got > 0 ? (size_t)got : 0;
}

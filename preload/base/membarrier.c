// SPDX-License-Identifier: Apache-2.0
// A memory barrier that one thread makes all running threads of the process execute.
#define _GNU_SOURCE
#include "base/membarrier.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// As in linux/membarrier.h, which headers older than Linux 4.14 lack.
enum { MEMBARRIER_PRIVATE_EXPEDITED = 1 << 3, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

static int membarrier(int command) {
    const int saved = errno;
    const int rc = syscall(SYS_membarrier, command, 0, 0) ? -errno : 0;
    errno = saved;
    return rc;
}

int ct_membarrier_register(void) {
    return membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED);
}

int ct_membarrier_all_threads(void) {
    return membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
}

// SPDX-License-Identifier: Apache-2.0
// Uses CUDA for the first time when no descriptor is left.
#define _GNU_SOURCE
#include "cu.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void) {
    struct rlimit few = {32, 32};
    setrlimit(RLIMIT_NOFILE, &few);
    while (open("/dev/null", O_RDONLY) >= 0)
        ;
    start(0);
    take(MIB);
    CUdeviceptr p = 0;
    T(cuMemAlloc_v2, &p, (size_t)1 << 50);
    printf("%d\n", open("/dev/null", O_RDONLY) < 0);
    return 0;
}

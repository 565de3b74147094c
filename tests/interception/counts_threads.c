// SPDX-License-Identifier: Apache-2.0
// Prints how many threads the process has after it has used CUDA.
#include "cu.h"

#include <dirent.h>
#include <unistd.h>

int main(void) {
    CUcontext ctx = NULL;
    CUdeviceptr p;
    int n = 0;
    CU(cuInit)(0);
    CU(cuDevicePrimaryCtxRetain)(&ctx, 0);
    CU(cuCtxSetCurrent)(ctx);
    CU(cuMemAlloc_v2)(&p, MIB);
    usleep(100000);
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    printf("%d\n", n);
    return 0;
}

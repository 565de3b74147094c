// SPDX-License-Identifier: Apache-2.0
// Kills itself in the middle of its work: killed_midway refused (an allocation fails, then SIGKILL
// at once), killed_midway flushed (waits for the writer first).
#include "cu.h"

#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    CUdeviceptr p;
    const int refused = argc > 1 && !strcmp(argv[1], "refused");
    start(0);
    for (int i = 0; i < 500; i++) {
        p = take(MIB);
        if (i % 3)
            CU(cuMemFree_v2)(p);
    }
    if (refused)
        CU(cuMemAlloc_v2)(&p, (size_t)1 << 50);
    else
        sleep(2); // several times the flush interval
    raise(SIGKILL);
    return 1;
}

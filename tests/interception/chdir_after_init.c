// SPDX-License-Identifier: Apache-2.0
// Changes its working folder after the first use of CUDA.
#include "cu.h"

#include <unistd.h>

int main(void) {
    start(0);
    take(MIB);
    usleep(100000);
    if (chdir("/"))
        return 1;
    take(2 * MIB);
    return 0;
}

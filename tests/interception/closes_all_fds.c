// SPDX-License-Identifier: Apache-2.0
// Closes all descriptors, as daemons do, and opens files of its own, which must stay its own.
#define _GNU_SOURCE
#include "cu.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 20 };

int main(void) {
    int fd[FILES], bad = 0;
    char name[32];
    start(0);
    take(MIB);
    usleep(300000);
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "own.%d", i);
        fd[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd[i] < 0 || write(fd[i], "mine", 4) != 4)
            return 1;
    }
    for (int i = 0; i < 2000; i++)
        CU(cuMemFree_v2)(take(4096 + (size_t)i));
    CUdeviceptr p;
    T(cuMemAlloc_v2, &p, (size_t)1 << 50); // refused: flushed at once
    usleep(600000);
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        if (fstat(fd[i], &st) || st.st_size != 4)
            bad++;
        snprintf(name, sizeof name, "own.%d", i);
        unlink(name);
    }
    printf("damaged %d\n", bad);
    return bad != 0;
}

// SPDX-License-Identifier: Apache-2.0
// A parent without CUDA and its workers in one process group: process_group PROCESSES
// ARGUMENTS-OF-WORKER...
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096];
    if (argc < 3)
        return 2;
    const char *slash = strrchr(argv[0], '/');
    snprintf(path, sizeof path, "%.*sworker", (int)(slash ? slash + 1 - argv[0] : 0), argv[0]);
    const int processes = atoi(argv[1]);
    argv[1] = path;
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            execv(path, argv + 1);
            _exit(127);
        }
    while (wait(NULL) > 0)
        ;
    return 0;
}

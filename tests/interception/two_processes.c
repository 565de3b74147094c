// SPDX-License-Identifier: Apache-2.0
// Two processes fill one device.
#define _GNU_SOURCE
#include "cu.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        start(0);
        take(500 * MIB);
        fflush(stdout);
        close(atoi(argv[1])); // says that it has it
        return read(atoi(argv[2]), (char[1]){0}, 1) != 0;
    }
    int up[2], down[2], status = 1;
    char a[16], b[16];
    if (pipe(up) || pipe(down))
        return 1;
    snprintf(a, sizeof a, "%d", up[1]);
    snprintf(b, sizeof b, "%d", down[0]);
    const pid_t pid = fork();
    if (pid == 0) {
        close(up[0]);
        close(down[1]);
        execl("/proc/self/exe", argv[0], a, b, (char *)NULL);
        _exit(127);
    }
    close(up[1]);
    close(down[0]);
    if (read(up[0], (char[1]){0}, 1) != 0)
        return 1;
    start(0);
    take(200 * MIB);
    take(500 * MIB);
    fflush(stdout);
    close(down[1]);
    return waitpid(pid, &status, 0) != pid || status != 0;
}

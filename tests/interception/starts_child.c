// SPDX-License-Identifier: Apache-2.0
// Allocates, and starts a child that does: starts_child keeps|loses|idle
//   keeps   the child has the environment of its parent
//   loses   without LD_PRELOAD
//   idle    without LD_PRELOAD, and without CUDA
// The child lives longer than its parent, which ends when the child has allocated.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int allocate(void) {
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    int (*alloc)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
    unsigned long long p = 0;
    void *context = NULL;
    return !init || init(0) || retain(&context, 0) || set(context) || alloc(&p, 1 << 20);
}

// Says that it is ready, and waits until the parent has ended.
static int be_child(int uses_cuda) {
    char c = (char)(uses_cuda && allocate());
    if (write(STDOUT_FILENO, &c, 1) != 1)
        return 1;
    return read(STDIN_FILENO, &c, 1) != 0;
}

static void run_child(const char *program, const char *how, const int *to, const int *from) {
    if (strcmp(how, "keeps") != 0)
        unsetenv("LD_PRELOAD");
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    close(to[1]);
    close(from[0]);
    execl(program, program, "child", how, (char *)NULL);
    _exit(127);
}

int main(int argc, char **argv) {
    int to[2], from[2];
    char c = 1;
    if (argc > 2 && !strcmp(argv[1], "child"))
        return be_child(strcmp(argv[2], "idle") != 0);
    if (argc < 2 || allocate() || pipe2(to, 0) || pipe2(from, 0))
        return 1;
    const pid_t child = fork();
    if (!child)
        run_child("/proc/self/exe", argv[1], to, from);
    if (child < 0 || read(from[0], &c, 1) != 1)
        return 1;
    return c; // and the child reads the end of its input
}

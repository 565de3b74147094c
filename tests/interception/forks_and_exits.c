// SPDX-License-Identifier: Apache-2.0
// Forks and ends processes in every way.
#define _GNU_SOURCE
#include "cu.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t pid) {
    int status = 1;
    return pid <= 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static void *in_thread(void *ctx) {
    CUdeviceptr p;
    CU(cuCtxSetCurrent)(ctx);
    CU(cuMemAlloc_v2)(&p, 6 * MIB);
    return NULL;
}

static int use_in_child(char **argv) {
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], "plain", (char *)NULL);
        _exit(127);
    }
    return wait_for(pid);
}

// The child of a process that has used CUDA cannot use it, and says so.
static int plain_fork(void) {
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        CUdeviceptr p;
        _exit(CU(cuMemAlloc_v2)(&p, MIB) == CUDA_SUCCESS);
    }
    return wait_for(pid);
}

static int daemonise(void) {
    int ends[2];
    char c = 0;
    fflush(stdout);
    if (pipe(ends))
        return 1;
    const pid_t pid = fork();
    if (pid == 0) {
        if (daemon(1, 1))
            _exit(1);
        start(0);
        take(8 * MIB);
        fflush(stdout);
        c = 'x';
        exit(write(ends[1], &c, 1) != 1);
    }
    close(ends[1]);
    const int bad = wait_for(pid) || read(ends[0], &c, 1) != 1;
    (void)!read(ends[0], &c, 1); // until the daemon has ended
    return bad;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "plain";
    CUcontext ctx = NULL;
    pthread_t t;
    if (!strcmp(kind, "daemon"))
        return daemonise();
    if (!strcmp(kind, "fork-use")) { // the child uses CUDA first, then the parent
        fflush(stdout);
        const pid_t pid = fork();
        ctx = start(0);
        take(pid ? 9 * MIB : 10 * MIB);
        if (pid == 0)
            exit(0);
        return wait_for(pid);
    }
    ctx = start(0);
    take(5 * MIB);
    if (!strcmp(kind, "fork"))
        return plain_fork();
    if (!strcmp(kind, "exec"))
        return use_in_child(argv);
    if (!strcmp(kind, "vfork")) {
        fflush(stdout);
        const pid_t pid = vfork();
        if (pid == 0) {
            execl("/proc/self/exe", argv[0], "plain", (char *)NULL);
            _exit(127);
        }
        const int bad = wait_for(pid);
        take(7 * MIB);
        return bad;
    }
    if (!strcmp(kind, "thread-exit")) {
        pthread_create(&t, NULL, in_thread, ctx);
        pthread_join(t, NULL);
        pthread_create(&t, NULL, in_thread, ctx);
        pthread_join(t, NULL);
        fflush(stdout);
        pthread_exit(NULL); // main ends, the process by the last thread
    }
    // No exit handler will run: what a refusal has flushed is in the trace.
    CUdeviceptr p;
    T(cuMemAlloc_v2, &p, (size_t)1 << 50);
    fflush(stdout);
    if (!strcmp(kind, "_exit"))
        _exit(0);
    if (!strcmp(kind, "quick_exit"))
        quick_exit(0);
    if (!strcmp(kind, "abort"))
        abort();
    return 0;
}

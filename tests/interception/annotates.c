// SPDX-License-Identifier: Apache-2.0
// Annotates itself with cutrace.h around driver calls. The argument says how.
#include <cutrace/cutrace.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr p = 0;
    (void)T(cuMemAlloc_v2, &p, bytes);
    return p;
}

static void begin(void) {
    CUcontext context = NULL;
    (void)T(cuInit, 0);
    (void)T(cuCtxCreate_v2, &context, 0, 0);
}

// No annotation changes errno.
#define KEEPS_ERRNO(call)                      \
    do {                                       \
        errno = 77;                            \
        call;                                  \
        if (errno != 77)                       \
            printf("errno %d: " #call, errno); \
    } while (0)

static void errnos(void) {
    char there;
    KEEPS_ERRNO(cutrace_mark("a"));
    KEEPS_ERRNO(cutrace_range_push("b"));
    KEEPS_ERRNO(cutrace_pool_alloc("c", &there, 1));
    KEEPS_ERRNO(cutrace_pool_free("c", &there));
    KEEPS_ERRNO(cutrace_range_pop());
}

// Marks, nested ranges and a pool, begun before the first CUDA call.
static void everything(void) {
    cutrace_mark("too early");
    cutrace_range_push("outer");
    cutrace_range_push("over before");
    cutrace_range_pop();
    begin();
    const CUdeviceptr p = allocate(MIB);
    cutrace_pool_alloc("arena", (void *)(uintptr_t)p, 4096);
    cutrace_range_push("inner");
    (void)allocate(2 * MIB);
    cutrace_mark("here");
    cutrace_range_pop();
    cutrace_pool_free("arena", (void *)(uintptr_t)p);
    cutrace_range_pop();
    (void)allocate(3 * MIB);
    cutrace_range_pop(); // one too many
}

// Names that are NULL, long, no UTF-8, made of control characters, and too many.
static void hostile(void) {
    char name[600];
    begin();
    cutrace_mark(NULL);
    cutrace_mark("");
    cutrace_mark("\x1b[31m\xff\n\"}");
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    cutrace_mark(name);
    memset(name, 0, sizeof name);
    for (size_t i = 0; i + 3 < sizeof name; i += 3) // the 200th byte is in the midst of a character
        memcpy(name + i, "\xe2\x82\xac", 3);
    cutrace_mark(name);
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof name, "step %d of 20000", i);
        cutrace_mark(name);
    }
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i / 676);
        cutrace_mark(name);
    }
    for (int i = 0; i < 100000; i++)
        cutrace_range_push("deep");
    (void)allocate(MIB);
    for (int i = 0; i < 100000; i++)
        cutrace_range_pop();
    (void)allocate(MIB);
}

static void *thread(void *name) {
    cutrace_range_push(name);
    for (int i = 0; i < 200; i++) {
        cutrace_range_push("step");
        CUdeviceptr p = 0;
        (void)CU(cuMemAlloc_v2)(&p, 4096);
        (void)CU(cuMemFree_v2)(p);
        cutrace_range_pop();
    }
    cutrace_range_pop();
    return NULL;
}

static void threads(void) {
    static char names[4][8] = {"t0", "t1", "t2", "t3"};
    pthread_t t[4];
    CUdevice device = 0;
    CUcontext context = NULL;
    (void)T(cuInit, 0);
    (void)T(cuDevicePrimaryCtxRetain, &context, device);
    for (int i = 0; i < 4; i++)
        (void)pthread_create(&t[i], NULL, thread, names[i]);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(t[i], NULL);
}

// A child has a trace of its own, which begins inside the ranges of the parent.
static void forks(void) {
    cutrace_range_push("parent");
    const pid_t child = fork();
    if (!child) {
        cutrace_range_push("child");
        begin();
        (void)allocate(MIB);
        cutrace_range_pop();
        cutrace_range_pop();
        return;
    }
    (void)waitpid(child, NULL, 0);
    cutrace_range_pop();
}

// More ranges than are kept until the first CUDA call, in the process or in a child.
static void deep(int forked) {
    char name[16];
    for (int i = 0; i < 70; i++) {
        (void)snprintf(name, sizeof name, "d%d", i);
        cutrace_range_push(name);
    }
    const pid_t child = forked ? fork() : 0;
    if (child) {
        (void)waitpid(child, NULL, 0);
        return;
    }
    begin();
    (void)allocate(MIB);
    cutrace_range_push("behind");
    cutrace_range_pop();
    for (int i = 0; i < 70; i++)
        cutrace_range_pop();
    (void)allocate(2 * MIB);
}

// No CUDA at all: no trace.
static void none(void) {
    cutrace_mark("nothing");
    cutrace_range_push("nothing");
    cutrace_range_pop();
}

// So much that the file goes round, inside of a range; then it ends, or the process is killed.
static void goes_round(int killed) {
    begin();
    cutrace_range_push("all the time");
    for (uint64_t i = 0, random = 1; i < 300000; i++) {
        CUdeviceptr p = 0;
        random = random * 6364136223846793005u + 1442695040888963407u; // sizes do not compress
        cutrace_range_push(i & 1 ? "odd" : "even");
        (void)CU(cuMemAlloc_v2)(&p, (size_t)(1 + (random >> 40)));
        (void)CU(cuMemFree_v2)(p);
        cutrace_range_pop();
    }
    cutrace_mark("last");
    if (killed)
        (void)kill(getpid(), SIGKILL);
    cutrace_range_pop();
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "everything")) {
        everything();
    } else if (!strcmp(what, "errno")) {
        errnos(); // before the first CUDA call, and behind it
        begin();
        errnos();
    } else if (!strcmp(what, "hostile"))
        hostile();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "forks"))
        forks();
    else if (!strcmp(what, "deep"))
        deep(0);
    else if (!strcmp(what, "deep-fork"))
        deep(1);
    else if (!strcmp(what, "none"))
        none();
    else if (!strcmp(what, "round"))
        goes_round(0);
    else if (!strcmp(what, "killed"))
        goes_round(1);
    else
        return 2;
    return 0;
}

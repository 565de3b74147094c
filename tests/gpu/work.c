// SPDX-License-Identifier: Apache-2.0
// Allocates and frees: to be timed, or to be killed.
//   work loop PAIRS     a few first pairs, then PAIRS pairs of each kind; prints their time
//   work busy           for ever, about a thousand calls a second, with a ledger
//   work busy-two       the same in two processes of one group
//   work refused        one allocation fails, and the process dies at once
#define _GNU_SOURCE
#include "../interception/cu.h"

#include <signal.h>
#include <sys/resource.h>

#include "ledger.h"

static void must(CUresult r, const char *what) {
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "work: %s returns %d\n", what, (int)r);
    exit(1);
}
enum { FIRST = 100 }; // pairs of each kind before the measured ones

#define MUST(symbol, ...) must(CU(symbol)(__VA_ARGS__), #symbol)

static void sync_pairs(long pairs) {
    CUdeviceptr p = 0;
    for (long i = 0; i < pairs; i++) {
        MUST(cuMemAlloc_v2, &p, (size_t)(i % 7 + 1) * MIB);
        MUST(cuMemFree_v2, p);
    }
}

static void async_pairs(long pairs, CUstream s) {
    CUdeviceptr p = 0;
    for (long i = 0; i < pairs; i++) {
        MUST(cuMemAllocAsync, &p, (size_t)(i % 7 + 1) * 4096, s);
        MUST(cuMemFreeAsync, p, s);
    }
}

static void loop(long pairs) {
    CUstream s = NULL;
    MUST(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    uint64_t t[5];
    t[0] = now_ns();
    sync_pairs(
        FIRST); // with all that happens once: the pool's memory, the trace's files, NVML's start
    async_pairs(FIRST, s);
    t[1] = now_ns();
    usleep(300000);
    t[2] = now_ns();
    sync_pairs(pairs);
    t[3] = now_ns();
    async_pairs(pairs, s);
    t[4] = now_ns();
    MUST(cuStreamSynchronize, s);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"first\":%d,\"pairs\":%ld,\"first_ns\":%" PRIu64 ",\"sync_ns\":%" PRIu64
           ",\"async_ns\":%" PRIu64 ",\"host_kb\":%ld,\"cpu_ms\":%ld}\n",
           FIRST, pairs, t[1] - t[0], t[3] - t[2], t[4] - t[3], use.ru_maxrss,
           (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
               (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000);
}

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr p = 0;
    CALL("cuMemAlloc_v2", "alloc", "pb", CU(cuMemAlloc_v2)(&p, bytes), p, bytes, 0);
    return p;
}

static void busy(void) {
    CUdeviceptr p[8] = {0};
    for (unsigned i = 0;; i++) {
        CUdeviceptr *slot = &p[i % 8];
        if (*slot)
            CALL("cuMemFree_v2", "free", "p", CU(cuMemFree_v2)(*slot), *slot, 0, 0);
        *slot = allocate((i % 5 + 1) * MIB);
        usleep(1000);
    }
}

int main(int argc, char **argv) {
    CUcontext context = NULL;
    const char *what = argc > 1 ? argv[1] : "";
    load("dlsym");
    if (!strcmp(what, "busy-two") && fork() == 0) {
        execl("/proc/self/exe", argv[0], "busy", (char *)NULL);
        _exit(127);
    }
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    if (!strcmp(what, "loop") && argc > 2) {
        loop(strtol(argv[2], NULL, 10));
    } else if (!strncmp(what, "busy", 4)) {
        busy();
    } else if (!strcmp(what, "refused")) {
        for (int i = 0; i < 20; i++)
            allocate(MIB);
        CUdeviceptr p = 0;
        CU(cuMemAlloc_v2)(&p, (size_t)1 << 50);
        kill(getpid(), SIGKILL);
    } else {
        return 2;
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Takes and gives back device memory in a strict rhythm, for what records a part of it:
//   periodic_sizes THREADS ROUNDS PERIOD [KEEP]
// THREADS threads, one after the other, take ROUNDS times: size i % PERIOD + 1 times 512 bytes, for
// i = 0, 1, ... Each gives back what it took 64 rounds before; the last 64 of each thread are given
// back only without KEEP.
#include <pthread.h>

#include "cu.h"

static unsigned long rounds, period;
static int keep;
static CUcontext context;

static void *work(void *unused) {
    CUdeviceptr ring[64] = {0};
    cuCtxSetCurrent(context);
    for (unsigned long i = 0; i < rounds; i++) {
        CUdeviceptr *slot = &ring[i % 64];
        if (*slot && cuMemFree_v2(*slot))
            exit(4);
        if (cuMemAlloc_v2(slot, (i % period + 1) * 512))
            *slot = 0;
    }
    for (int i = 0; i < 64 && !keep; i++)
        if (ring[i])
            cuMemFree_v2(ring[i]);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    const unsigned long threads = strtoul(argv[1], NULL, 10);
    rounds = strtoul(argv[2], NULL, 10);
    period = strtoul(argv[3], NULL, 10);
    keep = argc > 4;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
        return 3;
    for (unsigned long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL))
            return 5;
        pthread_join(thread, NULL);
    }
    return 0;
}

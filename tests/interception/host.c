// SPDX-License-Identifier: Apache-2.0
// Runs one kind of program, and notes what it finds of itself before and afterwards.
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

static CUcontext context;
static _Atomic long wrong_results, changed_errnos;

static void count(CUresult got, CUresult want) {
    wrong_results += got != want;
    changed_errnos += errno != 4711;
    errno = 4711;
}

void begin(void) {
    errno = 4711;
    count(CU(cuInit)(0), CUDA_SUCCESS);
    count(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    count(CU(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    use(1);
}

void use(int pairs) {
    errno = 4711;
    for (int i = 0; i < pairs; i++) {
        CUdeviceptr p = 0;
        count(CU(cuMemAlloc_v2)(&p, 512 + (size_t)i % 4096), CUDA_SUCCESS);
        count(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
    }
}

void refuse(void) {
    CUdeviceptr p = 0;
    errno = 4711;
    count(CU(cuMemAlloc_v2)(&p, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

void *use_in_thread(void *pairs) {
    errno = 4711;
    count(CU(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    use((int)(intptr_t)pairs);
    return NULL;
}

void run_threads(int threads, size_t stack_bytes, void *(*run)(void *), void *argument) {
    pthread_t t[64];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_bytes && pthread_attr_setstacksize(&attributes, stack_bytes))
        abort();
    for (intptr_t i = 0; i < threads; i++)
        if (pthread_create(&t[i], &attributes, run, argument ? argument : (void *)i))
            abort();
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    pthread_attr_destroy(&attributes);
}

static const struct kind *find(const char *name) {
    static const struct kind *const tables[] = {descriptor_kinds, process_kinds, thread_kinds};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct kind *k = tables[i]; k->name; k++)
            if (!strcmp(k->name, name))
                return k;
    return NULL;
}

int main(int argc, char **argv) {
    const struct kind *kind = argc > 1 ? find(argv[1]) : NULL;
    if (!kind)
        return 2;
    note_state("before");
    const int status = kind->run(argc > 2 ? argv[2] : "");
    note_state("after");
    note("wrong results %ld, errno changed %ld\n", (long)wrong_results, (long)changed_errnos);
    return write_notes() ? 3 : status;
}

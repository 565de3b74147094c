// SPDX-License-Identifier: Apache-2.0
// Holds GPU memory as holder.py does, without an interpreter, so that many can run at once: a
// command a line on standard input, an answer a line when it was done.
//   alloc BYTES   allocates; the answer is the driver's result
//   free          frees the last one
//   churn N       so many allocations and frees of 512 bytes
//   name TEXT     is called so from now on
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "../recorder/worker.h"

enum { MOST = 1 << 16 };
static CUdeviceptr held[MOST];
static unsigned count;

static CUresult allocate(CUdeviceptr *p, size_t bytes) {
    const CUresult result = cu.alloc(p, bytes);
    cu.returned();
    return result;
}

static CUresult release(CUdeviceptr p) {
    const CUresult result = cu.release(p);
    cu.returned();
    return result;
}

static CUresult churn(unsigned long n) {
    CUresult result = CUDA_SUCCESS;
    CUdeviceptr p = 0;
    for (unsigned long i = 0; i < n && !result; i++)
        if (!(result = allocate(&p, 512)))
            result = release(p);
    return result;
}

static CUresult follow(const char *word, const char *more) {
    const size_t n = strtoul(more, NULL, 10);
    if (strcmp(word, "alloc") == 0 && count < MOST) {
        const CUresult result = allocate(&held[count], n);
        count += !result;
        return result;
    }
    if (strcmp(word, "free") == 0 && count)
        return release(held[--count]);
    if (strcmp(word, "churn") == 0)
        return churn(n);
    if (strcmp(word, "name") == 0)
        return prctl(PR_SET_NAME, more) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

int main(void) {
    char line[256], word[16], more[64];
    cu_start();
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        *word = *more = 0;
        if (sscanf(line, "%15s %63[^\n]", word, more) < 1)
            continue;
        printf("%d\n", (int)follow(word, more));
        fflush(stdout);
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Handles of the stand-ins for NVIDIA's libraries, with the device memory that the real ones hold.
//
// Compiled into each stand-in, with a runtime of its own (build/sim/libsimcudart.a): NVIDIA's
// libraries have theirs linked into them, too, so that their calls reach the driver by its
// addresses and never by a name that an interposer of the runtime would see.
#include <stddef.h>
#include <stdlib.h>

int cudaMalloc(void **p, size_t bytes);
int cudaFree(void *p);
int cudaGetLastError(void);

enum { MAX_PIECES = 256 };

struct handle {
    size_t count;
    void *pieces[MAX_PIECES];
};

static void give_back(struct handle *h) {
    while (h->count)
        cudaFree(h->pieces[--h->count]);
    free(h);
}

// Takes the `count` sizes. 0, or what the library returns where it finds no memory; then nothing is
// held.
static int stand_in_create(void **out, const size_t *sizes, size_t count, int refused) {
    struct handle *h = calloc(1, sizeof *h);
    if (!h)
        return refused;
    while (h->count < count) {
        if (cudaMalloc(&h->pieces[h->count], sizes[h->count])) {
            cudaGetLastError();
            give_back(h);
            return refused;
        }
        h->count++;
    }
    *out = h;
    return 0;
}

static int stand_in_destroy(void *handle) {
    if (handle)
        give_back(handle);
    return 0;
}

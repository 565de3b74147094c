// SPDX-License-Identifier: Apache-2.0
// What many programs do to see whether there is a GPU, and no more.
#define _GNU_SOURCE
#include "cu.h"

#include <dlfcn.h>

int main(void) {
    int version = 0;
    void *p = NULL;
    load("chain2");
    printf("%d %d\n", cu.cuInit(0), cu.cuDriverGetVersion(&version));
    return cu.cuGetProcAddress_v2("cuMemAlloc", &p, 12000, 0, NULL) || !p;
}

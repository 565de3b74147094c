// SPDX-License-Identifier: Apache-2.0
// A library whose constructor allocates a block.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void at_load(void) {
    const char *text = getenv("BLOCKS_CONSTRUCTOR");
    unsigned long in, alloc;
    if (!text || sscanf(text, "%lx:%lx", &in, &alloc) != 2)
        return;
    atomic_store((atomic_int *)in, 1);
    if (!((void *(*)(int, size_t))alloc)(0, 4096))
        abort();
}

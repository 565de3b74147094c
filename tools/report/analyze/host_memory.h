// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory by the library that allocated or registered it.
#ifndef CT_HOST_MEMORY_H
#define CT_HOST_MEMORY_H

#include "replay/replay.h"

struct ct_host_memory {
    int registered;  // memory of the program's own that was registered; else allocated
    uint32_t module; // path of the library that called CUDA, a string's id; 0: not known
    uint64_t ranges, bytes;
};

// Lists what is live, the most bytes first. The caller frees the list.
struct ct_host_memory *ct_host_memory_list(const struct ct_definitions *n, const struct ct_live *l,
                                           size_t *count);

#endif

// SPDX-License-Identifier: Apache-2.0
// What a program says of itself: marks, ranges, sub-allocations of its own pools. The functions of
// cutrace.h and of NVTX come in here. Any thread at any time; no function blocks, allocates from
// the host's heap or changes errno.
#ifndef CT_ANNOTATION_H
#define CT_ANNOTATION_H

#include <stdint.h>

// Names are ids (store/name_table.h); 0: none.
struct ct_annotation {
    uint32_t api;  // the function that the program called
    uint32_t text; // of a mark or a range; of a sub-allocation: of its pool
    uint32_t domain, category;
};

// Records a mark. Before the process's first CUDA call it is only counted, because a process that
// never uses CUDA leaves no trace.
void ct_annotation_mark(const struct ct_annotation *a);

// Ranges of the calling thread, which nest, for each domain by itself. Return the level of the
// range that begins or ends, from 0 on; -1: none is open.
int ct_annotation_push(const struct ct_annotation *a);
int ct_annotation_pop(uint32_t api, uint32_t domain);

// A range of the process, which may end in another thread. `id` is unique among those that are
// open. One that begins before the first CUDA call is only counted.
void ct_annotation_start(const struct ct_annotation *a, uint64_t id);
void ct_annotation_end(uint32_t api, uint64_t id);

// A pool that has a handle: an NVTX heap (0: that of the whole process).
struct ct_annotation_pool {
    int is_known;
    uint64_t handle;
};

// Memory that a pool of the program's hands out and takes back: no memory beyond the pool's own. A
// suballoc of memory that is handed out already changes its size; `subfree_all` takes back all that
// the pool has handed out.
void ct_annotation_suballoc(const struct ct_annotation *a, struct ct_annotation_pool pool,
                            uint64_t ptr, uint64_t bytes);
void ct_annotation_subfree(const struct ct_annotation *a, uint64_t ptr);
void ct_annotation_subfree_all(const struct ct_annotation *a, struct ct_annotation_pool pool);
// The name of memory that is handed out.
void ct_annotation_subname(const struct ct_annotation *a, uint64_t ptr);
// A pool begins: it hands out memory of this range (0 bytes: that is not known). And it ends.
void ct_annotation_subpool(const struct ct_annotation *a, struct ct_annotation_pool pool,
                           uint64_t ptr, uint64_t bytes);
void ct_annotation_subpool_end(const struct ct_annotation *a, struct ct_annotation_pool pool);

#endif

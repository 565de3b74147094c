// SPDX-License-Identifier: Apache-2.0
// What a program says of itself: marks, ranges, sub-allocations of its own pools. The functions of
// cutrace.h and of NVTX come in here. Any thread at any time; no function blocks, allocates from
// the host's heap or changes errno.
#ifndef CT_ANNOTATION_H
#define CT_ANNOTATION_H

#include "record/annotation_state.h"

// Records an annotation. Before the process's first CUDA call it is only counted, because a process
// that never uses CUDA leaves no trace.
//
//   CT_OP_MARK
//   CT_OP_RANGE_START   A range of the process, which may end in another thread. `handle` is unique
//   CT_OP_RANGE_END     among those that are open.
//   CT_OP_SUBALLOC      Memory (ptr, bytes) that a pool of the program's hands out: no memory
//                       beyond the pool's own. What is handed out already changes its size.
//   CT_OP_SUBFREE       The pool takes it back: without ptr, all that it has handed out.
//   CT_OP_SUBNAME       The name of memory that is handed out.
//   CT_OP_SUBPOOL       A pool begins: it hands out memory of this range (0 bytes: that is not
//                       known). Without ptr and bytes it ends.
// A pool that has a handle is an NVTX heap (0: that of the whole process).
void ct_annotation_record(enum ct_op op, const struct ct_annotation *a);

// Ranges of the calling thread, which nest, for each domain by itself. Return the level of the
// range that begins or ends, from 0 on; -1: none is open.
int ct_annotation_push(const struct ct_annotation *a);
int ct_annotation_pop(const struct ct_annotation *a);

#endif

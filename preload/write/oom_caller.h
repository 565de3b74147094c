// SPDX-License-Identifier: Apache-2.0
// Which failed allocations PyTorch's allocator answers by itself. Drain lock held, unless a
// function says otherwise.
//
// The caching allocator frees what it has cached and repeats a call that the driver refused; only
// if that fails, too, it reports an OOM (block-oom) and raises an exception. Its calls are known by
// their stack: the first frame outside CUDA's libraries lies in libc10_cuda. It does not repeat
// stream-ordered allocations (the cudaMallocAsync backend) and page-locked ones, nor any with
// PYTORCH_NO_CUDA_MEMORY_CACHING, and it reports no OOM before torch 1.13. The calls of a pluggable
// allocator (vLLM's CuMemAllocator) lie in that allocator's library.
#ifndef CT_WRITE_OOM_CALLER_H
#define CT_WRITE_OOM_CALLER_H

#include <cutrace/format/format.h>

// Registers what tells whether a PyTorch that reports OOMs is loaded. Any thread.
void ct_oom_caller_set_reporter(int (*reports)(void));

// Whether PyTorch's allocator made this failed call and repeats it or reports an OOM. 0 if that is
// not known, as without native frames. The event's numbers are the process's own.
int ct_oom_caller_tries_again(const struct ct_event *event);

#endif

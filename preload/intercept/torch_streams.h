// SPDX-License-Identifier: Apache-2.0
// The current CUDA stream of a thread, as PyTorch knows it.
#ifndef CT_TORCH_STREAMS_H
#define CT_TORCH_STREAMS_H

#include <stdint.h>

#include "intercept/libc10.h"

// PyTorch's number of the calling thread's current stream on a device: 0 is the default stream.
// CT_STREAM_UNKNOWN if it cannot be read. `caller` is the return address of a report, in
// libc10_cuda of torch 2.0 or later. Takes no lock that a thread may hold while it waits for
// PyTorch's allocator, and calls nothing of PyTorch (torch_streams.c).
uint64_t ct_torch_streams_current(struct ct_torch_device device, const void *caller);

// Finds copies of libc10_cuda that were loaded since the last call, and keeps them open. Takes the
// loader's lock, and reads files: not inside a report.
void ct_torch_streams_rescan(void);

#endif

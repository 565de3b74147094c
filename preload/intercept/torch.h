// SPDX-License-Identifier: Apache-2.0
// What the files for PyTorch have for each other, and for the look at loaded objects.
#ifndef CT_TORCH_H
#define CT_TORCH_H

#include <stddef.h>
#include <stdint.h>

// ---- libc10.c --------------------------------------------------------------------------------

// The copies of PyTorch's libc10 in the process, and which of them a report goes on to.

// A c10::Device, which is passed by value in one register.
struct ct_torch_device {
    int8_t type, index;
};
enum { CT_TORCH_CUDA = 1 };

enum ct_torch_id {
#define CT_TORCH(symbol, params, args, effect) CT_TORCH_ID_##symbol,
#include "intercept/torch_hooks.def"
    CT_TORCH_HOOKS
};

// The function that a report goes on to, NULL if there is none. `caller` is the report's return
// address. Takes no lock that a thread may hold while it waits for PyTorch's allocator (libc10.c).
void *ct_libc10_next(enum ct_torch_id id, struct ct_torch_device device, const void *caller);

// Finds copies of libc10 that were loaded since the last call, and keeps them open. Takes the
// loader's lock: not inside a report of GPU memory.
void ct_libc10_rescan(void);

// Whether a libc10 is loaded that is told of failed allocations (torch 1.13 and later). Takes no
// lock that a thread may hold while it waits for PyTorch's allocator.
int ct_libc10_reports_oom(void);

// Reads the version of the PyTorch that a library in torch/lib belongs to, from torch/version.py.
// Returns whether there is one. Reads a file: not inside a report.
int ct_libc10_read_version(const char *library, char *version, size_t size);

// Publishes PyTorch's version and the number of reports that went nowhere (INFO torch.*).
void ct_libc10_publish_info(void);

// ---- torch_streams.c -------------------------------------------------------------------------

// The current CUDA stream of a thread, as PyTorch knows it.

// PyTorch's number of the calling thread's current stream on a device: 0 is the default stream.
// CT_STREAM_UNKNOWN if it cannot be read. `caller` is the return address of a report, in
// libc10_cuda of torch 2.0 or later. Takes no lock that a thread may hold while it waits for
// PyTorch's allocator, and calls nothing of PyTorch (torch_streams.c).
uint64_t ct_torch_streams_current(struct ct_torch_device device, const void *caller);

// Finds copies of libc10_cuda that were loaded since the last call, and keeps them open. Takes the
// loader's lock, and reads files: not inside a report.
void ct_torch_streams_rescan(void);

#endif

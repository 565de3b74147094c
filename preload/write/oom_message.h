// SPDX-License-Identifier: Apache-2.0
// The line on stderr about a failed allocation, and which events are one. Pure functions; any
// thread.
#ifndef CT_WRITE_OOM_MESSAGE_H
#define CT_WRITE_OOM_MESSAGE_H

#include <stddef.h>

#include <cutrace/model/live.h>

// CUDA_ERROR_OUT_OF_MEMORY of the driver and cudaErrorMemoryAllocation of the runtime have the same
// number.
#define CT_RESULT_OUT_OF_MEMORY 2

// Whether the event is an allocation that failed, for any reason; PyTorch's own OOM counts.
static inline int ct_event_is_failed_allocation(const struct ct_event *event) {
    return event->op == CT_OP_BLOCK_OOM ||
           (CT_HAS(event, result) && event->result != 0 &&
            (event->op == CT_OP_ALLOC || event->op == CT_OP_CREATE ||
             event->op == CT_OP_GRAPH_ALLOC));
}

// Whether the event is an allocation for which the driver had no memory.
static inline int ct_event_is_oom(const struct ct_event *event) {
    return ct_event_is_failed_allocation(event) && event->op != CT_OP_BLOCK_OOM &&
           event->result == CT_RESULT_OUT_OF_MEMORY;
}

// What is known about an OOM: bytes, and texts. Unknown numbers are UINT64_MAX (the device: -1),
// unknown texts NULL or "". `tracked` and `process` are of this process, `free` and `total` of the
// device.
struct ct_oom {
    int device;
    uint64_t bytes, free, total, tracked, process;
    const char *api, *caller, *path;
};

// Writes the line, without the parts that are unknown; long texts are cut. Returns its length.
size_t ct_oom_message_format(const struct ct_oom *oom, char *out, size_t size);

#endif

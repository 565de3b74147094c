// SPDX-License-Identifier: Apache-2.0
// The line on stderr that says which allocation the driver refused.
#ifndef CT_REFUSAL_H
#define CT_REFUSAL_H

#include <stddef.h>

#include <cutrace/model/live.h>

// CUDA_ERROR_OUT_OF_MEMORY, and cudaErrorMemoryAllocation for events of the runtime.
#define CT_RESULT_OUT_OF_MEMORY 2

// Whether the event is a request for memory that failed, PyTorch's included, and whether the driver refused it for want of
// memory.
static inline int ct_event_is_failed_allocation(const struct ct_event *event) {
    return event->op == CT_OP_BLOCK_OOM ||
           (CT_HAS(event, result) && event->result != 0 &&
            (event->op == CT_OP_ALLOC || event->op == CT_OP_CREATE ||
             event->op == CT_OP_GRAPH_ALLOC));
}

static inline int ct_event_is_oom(const struct ct_event *event) {
    return ct_event_is_failed_allocation(event) && event->op != CT_OP_BLOCK_OOM &&
           event->result == CT_RESULT_OUT_OF_MEMORY;
}

// What is known about a refusal. UINT64_MAX, NULL or "" where unknown.
struct ct_refusal {
    int device;
    uint64_t bytes, free, total, tracked, process;
    const char *api, *caller, *path;
};

// The line, with what is unknown left out. Returns its length.
size_t ct_oom_message_format(const struct ct_refusal *refusal, char *out, size_t size);

#endif

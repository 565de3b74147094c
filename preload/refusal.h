// SPDX-License-Identifier: Apache-2.0
// The line on stderr that says which allocation the driver refused.
#ifndef CT_REFUSAL_H
#define CT_REFUSAL_H

#include <stddef.h>

#include <cutrace/live.h>

// CUDA_ERROR_OUT_OF_MEMORY, and cudaErrorMemoryAllocation for events of the runtime.
#define CT_RESULT_OUT_OF_MEMORY 2

// Whether the event is a request for memory that failed, and whether it failed for want of memory.
int ct_is_failed_request(const struct ct_event *event);
int ct_is_refusal(const struct ct_event *event);

// What is known about a refusal. UINT64_MAX, NULL or "" where unknown.
struct ct_refusal {
    int device;
    uint64_t bytes, free, total, tracked, process;
    const char *api, *caller, *path;
};

// The line, with what is unknown left out. Returns its length.
size_t ct_refusal_line(const struct ct_refusal *refusal, char *out, size_t size);

#endif

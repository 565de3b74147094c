// SPDX-License-Identifier: Apache-2.0
// Which events are requests for memory that failed. This is the only definition: the recorder
// flushes and reports by it, and the report counts and explains by it.
//
// The driver takes memory in more calls than those that allocate: for a context, for the code of a
// module (with lazy loading at the first use of a function, even at a launch), for an executable
// graph, a stream, an event. Any of them can run out of memory, and then ends the program as a
// failed cuMemAlloc does.
#ifndef CUTRACE_FAILURES_H
#define CUTRACE_FAILURES_H

#include <cutrace/format/format.h>

// CUDA_ERROR_OUT_OF_MEMORY of the driver and cudaErrorMemoryAllocation of the runtime have the same
// number.
#define CT_RESULT_OUT_OF_MEMORY 2

// What the calls of an operation ask for.
enum ct_request_kind {
    CT_REQUEST_NONE,    // they release something, or are no calls
    CT_REQUEST_SIZED,   // memory or addresses, of the event's `bytes`
    CT_REQUEST_UNSIZED, // memory of unknown size; `bytes`, if present, are something else
};

static inline enum ct_request_kind ct_op_request_kind(uint32_t op) {
    static const uint8_t asks[CT_OPS_END] = {
#define CT_OP_DOES(OP, MAKES, ENDS, ASKS) [CT_OP_##OP] = CT_REQUEST_##ASKS,
#include <cutrace/model/ops.def>
    };
    return op < CT_OPS_END ? (enum ct_request_kind)asks[op] : CT_REQUEST_NONE;
}

// Whether `bytes` of an event is the size of its request.
static inline int ct_event_has_requested_bytes(const struct ct_event *e) {
    return CT_HAS(e, bytes) && ct_op_request_kind(e->op) == CT_REQUEST_SIZED;
}

// Whether a call ran out of memory. PyTorch's report of an OOM is no call.
static inline int ct_event_is_oom(const struct ct_event *e) {
    return CT_HAS(e, result) && e->result == CT_RESULT_OUT_OF_MEMORY && e->op != CT_OP_BLOCK_OOM &&
           ct_op_request_kind(e->op) != CT_REQUEST_NONE;
}

// Whether a call ran out of memory, or PyTorch reports that its allocator did.
static inline int ct_event_reports_oom(const struct ct_event *e) {
    return e->op == CT_OP_BLOCK_OOM || ct_event_is_oom(e);
}

// Whether a request for memory failed: for want of memory, or an allocation for any reason.
static inline int ct_event_is_failed_allocation(const struct ct_event *e) {
    if (e->op == CT_OP_BLOCK_OOM)
        return 1;
    if (!CT_HAS(e, result) || e->result == 0)
        return 0;
    return ct_event_is_oom(e) || e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE ||
           e->op == CT_OP_GRAPH_ALLOC;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's user objects, which are the driver's.
#include "runtime.h"

cudaError_t CUDARTAPI cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr,
                                           cudaHostFn_t destroy, unsigned int initialRefcount,
                                           unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL(cuUserObjectCreate, 11030, object_out, ptr, destroy, initialRefcount, flags));
}

cudaError_t CUDARTAPI cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuUserObjectRetain, 11030, object, count));
}

cudaError_t CUDARTAPI cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuUserObjectRelease, 11030, object, count));
}

cudaError_t CUDARTAPI cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                unsigned int count, unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphRetainUserObject, 11030, graph, object, count, flags));
}

cudaError_t CUDARTAPI cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                 unsigned int count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuGraphReleaseUserObject, 11030, graph, object, count));
}

// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's user objects, which are the driver's.
#include "runtime.h"

WITH_CONTEXT(cudaUserObjectCreate,
             (cudaUserObject_t * object_out, void *ptr, cudaHostFn_t destroy,
              unsigned int initialRefcount, unsigned int flags),
             CALL(cuUserObjectCreate, 11030, object_out, ptr, destroy, initialRefcount, flags))
WITH_CONTEXT(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count),
             CALL(cuUserObjectRetain, 11030, object, count))
WITH_CONTEXT(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count),
             CALL(cuUserObjectRelease, 11030, object, count))
WITH_CONTEXT(cudaGraphRetainUserObject,
             (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
             CALL(cuGraphRetainUserObject, 11030, graph, object, count, flags))
WITH_CONTEXT(cudaGraphReleaseUserObject,
             (cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
             CALL(cuGraphReleaseUserObject, 11030, graph, object, count))

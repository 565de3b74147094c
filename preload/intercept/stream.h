// SPDX-License-Identifier: Apache-2.0
// Which streams are capturing a graph. Most driver calls are forbidden during a capture.
#ifndef CT_STREAM_H
#define CT_STREAM_H

#include "intercept/cuda_api.h"

// Whether any stream of the process is capturing. While one is, the driver must not be asked
// anything that may invalidate the capture.
int ct_stream_any_capturing(void);

// Whether this stream is capturing. Asks the driver only if any stream is.
int ct_stream_is_capturing(CUstream stream, int ptsz);

// The stream that a handle means: with ptsz, 0 is the per-thread default stream.
static inline CUstream ct_stream_effective(CUstream stream, int ptsz) {
    return stream || !ptsz ? stream : CU_STREAM_PER_THREAD;
}

#endif

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

// Around a question to the driver that a capture may forbid: to ask it would invalidate the
// capture, unless the asking thread is in the relaxed mode. relax_enter puts it there and returns
// 1; with 0 the question must not be asked. relax_leave restores `mode`, which relax_enter has
// filled.
int ct_stream_relax_enter(CUstreamCaptureMode *mode);
void ct_stream_relax_leave(CUstreamCaptureMode *mode);

// The stream that a handle means: with ptsz, 0 is the per-thread default stream.
static inline CUstream ct_stream_effective(CUstream stream, int ptsz) {
    return stream || !ptsz ? stream : CU_STREAM_PER_THREAD;
}

#endif

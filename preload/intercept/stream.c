// SPDX-License-Identifier: Apache-2.0
// Hooks on stream capture. None of them records an event.
#define _GNU_SOURCE
#include "intercept/stream.h"

#include <stdatomic.h>

#include "intercept/driver.h"
#include "intercept/hook_table.h"
#include "intercept/passes.h"

static atomic_int capturing_streams;

int ct_stream_any_capturing(void) {
    return atomic_load_explicit(&capturing_streams, memory_order_relaxed) > 0;
}

// While another stream captures, the question fails for the legacy stream, and harms nothing
// (cuda.h).
static int ask_capturing(CUstream stream, int ptsz) {
    const struct ct_driver *driver = ct_driver();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver->stream_capturing &&
           CT_ASK(driver->stream_capturing(ct_stream_effective(stream, ptsz), &status)) ==
               CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// A stream can join a capture by waiting for an event, without a call that this file hooks.
// Therefore the driver is asked.
int ct_stream_is_capturing(CUstream stream, int ptsz) {
    return ct_stream_any_capturing() && ask_capturing(stream, ptsz);
}

int ct_stream_relax_enter(CUstreamCaptureMode *mode) {
    const struct ct_driver *driver = ct_driver();
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return driver->capture_mode && CT_ASK(driver->capture_mode(mode)) == CUDA_SUCCESS;
}

void ct_stream_relax_leave(CUstreamCaptureMode *mode) {
    (void)CT_ASK(ct_driver()->capture_mode(mode));
}

// ---- capture --------------------------------------------------------------------------------

static CUresult count_begin(CUresult r) {
    if (r == CUDA_SUCCESS)
        atomic_fetch_add(&capturing_streams, 1);
    return r;
}

#define CT_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_CAPTURE_HOOK(symbol, base, abi, ptsz, params, args)      \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) { \
        return count_begin(real args);                              \
    }
#include "intercept/hooks.def"

// On an invalidated capture, cuStreamEndCapture fails and ends the capture; on a stream that does
// not capture, it fails and ends nothing. The stream's status before and after the call tells the
// two apart.
#define ON_END_CAPTURE(symbol, PTSZ)                                                    \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUstream hStream, CUgraph *phGraph) { \
        const int before = (int)CT_KEPT(ct_stream_is_capturing(hStream, PTSZ));         \
        const CUresult r = real(hStream, phGraph);                                      \
        if (before && !ask_capturing(hStream, PTSZ))                                    \
            atomic_fetch_sub(&capturing_streams, 1);                                    \
        return r;                                                                       \
    }
ON_END_CAPTURE(cuStreamEndCapture, 0)
ON_END_CAPTURE(cuStreamEndCapture_ptsz, 1)

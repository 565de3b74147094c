// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA runtime. It is NOT NVIDIA's runtime: it is there so that programs that
// use the runtime's interface can run on the simulated driver, which it reaches by the look-ups
// that the real one was recorded to make.
#ifndef SIMRT_RUNTIME_H
#define SIMRT_RUNTIME_H

#define __CUDA_API_VERSION_INTERNAL // both variants of the default stream are declared
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

enum simrt_lookup {
#define SIMRT_LOOKUP(name, version, flags) SIMRT_AT_##name##_##version##_##flags,
#include "lookups.def"
#undef SIMRT_LOOKUP
    SIMRT_LOOKUPS
};

extern void *simrt_entry[SIMRT_LOOKUPS]; // what the look-ups returned

// A call of the driver through what the look-up returned; the type is cudaTypedefs.h's.
#define SIMRT_CALL_(at, type, ...) \
    (simrt_entry[at] ? ((type)simrt_entry[at])(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED)
#define CALL(name, version, ...) \
    SIMRT_CALL_(SIMRT_AT_##name##_##version##_0, PFN_##name##_v##version, __VA_ARGS__)
// For the per-thread default stream; pt is a bool.
#define CALL_PTSZ(pt, name, version, pt_version, ...)                                          \
    ((pt) ? SIMRT_CALL_(SIMRT_AT_##name##_##pt_version##_2, PFN_##name##_v##pt_version##_ptsz, \
                        __VA_ARGS__)                                                           \
          : CALL(name, version, __VA_ARGS__))
#define CALL_PTDS(pt, name, version, pt_version, ...)                                          \
    ((pt) ? SIMRT_CALL_(SIMRT_AT_##name##_##pt_version##_2, PFN_##name##_v##pt_version##_ptds, \
                        __VA_ARGS__)                                                           \
          : CALL(name, version, __VA_ARGS__))

// Defines an exported function and its per-thread variant by one static function do_NAME(pt, ...).
#define TWO(name, params, ...)                 \
    cudaError_t CUDARTAPI name params {        \
        return do_##name(false, __VA_ARGS__);  \
    }                                          \
    cudaError_t CUDARTAPI name##_ptsz params { \
        return do_##name(true, __VA_ARGS__);   \
    }

// The first call of anything looks the driver up and initialises it.
cudaError_t simrt_start(void);
// For what needs a context: the current one, or else the primary one of the thread's device.
cudaError_t simrt_context(void);
// Every result goes through here: it is remembered for cudaGetLastError.
cudaError_t simrt_done(CUresult result);
CUresult simrt_resolve(const char *symbol, void **function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *status);
int simrt_device(void);
void simrt_forget_contexts(int device);

#define RETURN_IF_NOT_STARTED                          \
    do {                                               \
        cudaError_t not_started_ = simrt_start();      \
        if (not_started_)                              \
            return simrt_done((CUresult)not_started_); \
    } while (0)
#define RETURN_IF_NO_CONTEXT                          \
    do {                                              \
        cudaError_t no_context_ = simrt_context();    \
        if (no_context_)                              \
            return simrt_done((CUresult)no_context_); \
    } while (0)

// Defines an exported function that makes one call of the driver: what needs no context, what does,
// and what has a variant for the per-thread default stream, for which `pt` is true in the call.
#define STARTED(name, params, call)     \
    cudaError_t CUDARTAPI name params { \
        RETURN_IF_NOT_STARTED;          \
        return simrt_done(call);        \
    }
#define WITH_CONTEXT(name, params, call) \
    cudaError_t CUDARTAPI name params {  \
        RETURN_IF_NO_CONTEXT;            \
        return simrt_done(call);         \
    }
#define BOTH(name, params, call)               \
    cudaError_t CUDARTAPI name params {        \
        const bool pt = false;                 \
        RETURN_IF_NO_CONTEXT;                  \
        return simrt_done(call);               \
    }                                          \
    cudaError_t CUDARTAPI name##_ptsz params { \
        const bool pt = true;                  \
        RETURN_IF_NO_CONTEXT;                  \
        return simrt_done(call);               \
    }

CUresult simrt_function(const void *host, CUfunction *function); // code.c

#endif

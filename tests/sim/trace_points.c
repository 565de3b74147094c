// SPDX-License-Identifier: Apache-2.0
// The exported functions of the hook table: each tells a tracer of its call and does it. The
// functions that do the work are in the other files, under the same names: the build renames them
// there to sim_body_SYMBOL (module.mk), so that the driver's calls to itself are not told.
#define __CUDA_API_VERSION_INTERNAL
#include "trace_points.h"

#include <stdatomic.h>
#include <stddef.h>

#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>

static _Atomic(sim_tracer *) tracer;

void sim_driver_set_tracer(sim_tracer *new) {
    atomic_store(&tracer, new);
}

#define SIM_ARGS(...) __VA_ARGS__
#define SIM_TRACED(symbol, pointer, args)                                                         \
    CUresult result = CUDA_SUCCESS;                                                               \
    struct sim_point point = {CUPTI_DRIVER_TRACE_CBID_##symbol, #symbol, pointer, &result, 0, 0}; \
    sim_tracer *const trace = atomic_load_explicit(&tracer, memory_order_acquire);                \
    if (!trace)                                                                                   \
        return sim_body_##symbol args;                                                            \
    trace(&point, false);                                                                         \
    result = sim_body_##symbol args;                                                              \
    trace(&point, true);                                                                          \
    return result;

#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    CUresult CUDAAPI sim_body_##symbol params;         \
    CUresult CUDAAPI symbol params {                   \
        const symbol##_params given = {SIM_ARGS args}; \
        SIM_TRACED(symbol, &given, args)               \
    }
#define CT_HOOK0(symbol, base, abi, ptsz)     \
    CUresult CUDAAPI sim_body_##symbol(void); \
    CUresult CUDAAPI symbol(void) {           \
        SIM_TRACED(symbol, NULL, ())          \
    }
#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args) // resolver.c has these
#include "../../preload/intercept/hooks.def"

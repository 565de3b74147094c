// SPDX-License-Identifier: Apache-2.0
// Hooks on functions that take memory beside their work: streams, events, launches, questions about
// kernels. Only a call that runs out of memory is recorded, as a memory-sample with its result.
// What successful calls take is small or rare, and shows as untracked memory. Measuring would cost
// more than a launch.
#define _GNU_SOURCE
#include "intercept/hook_scope.h"

CT_BODY static void record_oom(enum ct_hook_id id) {
    struct ct_hook_call call;
    if (ct_hook_enter(&call, id, CT_OP_MEMORY_SAMPLE))
        ct_hook_measure_exit(&call, CUDA_ERROR_OUT_OF_MEMORY);
}

#define CT_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args)          \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) { \
        const CUresult r = real args;                               \
        if (__builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY, 0))     \
            record_oom(CT_ID_##symbol);                             \
        return r;                                                   \
    }
#include "intercept/hooks.def"

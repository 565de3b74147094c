// SPDX-License-Identifier: Apache-2.0
// The body of each driver row, ct_on_SYMBOL(real, parameters...): what cutrace does around the real
// function. The bodies are defined by subject (device.c, vmm.c, mempool.c, ...); their prototypes
// derive from hooks.def, so that a body which differs from its row does not compile.
#ifndef CT_HOOK_BODIES_H
#define CT_HOOK_BODIES_H

#include "intercept/hook_table.h"

// The code of a body that enters the scope of a recorded call (hook_scope.h): by its address a
// frame on the stack is known for that.
#define CT_BODY __attribute__((noinline, section("ct_bodies")))

#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_BODY CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params);
#define CT_HOOK0(symbol, base, abi, ptsz) CT_BODY CUresult ct_on_##symbol(ct_fn_##symbol *real);
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args) \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params);
#include "intercept/hooks.def"

#endif

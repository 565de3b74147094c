// SPDX-License-Identifier: Apache-2.0
// The wrappers of all driver rows but the resolvers, whose wrappers stand in resolve.c.
#define _GNU_SOURCE
#include "intercept/wrappers.h"

#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_DEFINE_WRAPPERS(symbol, params, (real, CT_ARGS args))
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_DEFINE_LAUNCH_WRAPPERS(symbol, params, args)
#define CT_HOOK0(symbol, base, abi, ptsz) CT_DEFINE_WRAPPERS(symbol, (void), (real))
#include "intercept/hooks.def"

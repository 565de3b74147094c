// SPDX-License-Identifier: Apache-2.0
// The static facts of the driver rows, and the name ids of their symbols.
#define _GNU_SOURCE
#include "intercept/hook_table.h"

const struct ct_hook ct_hook_table[CT_HOOKS] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) {#symbol, #base, abi, ptsz},
#include "intercept/hooks.def"
};

uint32_t ct_hook_table_name(enum ct_hook_id id) {
    static _Atomic uint32_t names[CT_HOOKS];
    return ct_hook_table_cached_name(&names[id], ct_hook_table[id].symbol);
}

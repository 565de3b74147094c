// SPDX-License-Identifier: Apache-2.0
// The functions that the hooks' entries go on to. Any thread at any time, also inside dlsym.
#ifndef CT_NEXT_FUNCTIONS_H
#define CT_NEXT_FUNCTIONS_H

#include "intercept/hook_table.h"

// Behind the exported wrapper: the next definition in the process, or NULL if there is none.
void *ct_next_function(enum ct_hook_id id);

// Behind the resolved entry: the pointer that ct_next_set_resolved stored.
void *ct_next_resolved(enum ct_hook_id id);

// Makes the resolved entry go on to a resolver's answer. Returns 1, or 0 if the entry goes on to a
// function of another object already; it keeps that function.
int ct_next_set_resolved(enum ct_hook_id id, void *answer);

// The driver, NULL if it is not loaded.
void *ct_next_driver_handle(void);

// A driver function for this library's own use, around its hooks. NULL where the driver lacks it.
void *ct_next_driver_symbol(const char *symbol);

#endif

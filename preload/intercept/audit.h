// SPDX-License-Identifier: Apache-2.0
// The audit (CUTRACE_AUDIT=1): which memory calls the wrappers saw and CUPTI did not, and the other
// way round, by function and by calling library. Any thread; no locks.
#ifndef CT_AUDIT_H
#define CT_AUDIT_H

#include "intercept/hook_table.h"

// CUPTI is asked for the calls of this hook. Before the audit begins.
void ct_audit_add_hook(enum ct_hook_id id);

// Calls that begin from now on are compared; 0: no longer.
void ct_audit_set_on(int on);

// CUPTI shows a call that this thread's wrapper is inside of.
void ct_audit_note_both(enum ct_hook_id id);

// CUPTI has shown a call that no wrapper saw. `caller` is its return address, NULL: not known.
// Counted without an audit, too.
void ct_audit_note_only_cupti(enum ct_hook_id id, const void *caller);

void ct_audit_publish_info(void);

#endif

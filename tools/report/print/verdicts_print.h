// SPDX-License-Identifier: Apache-2.0
// Verdicts as text and in JSON.
#ifndef CT_VERDICTS_PRINT_H
#define CT_VERDICTS_PRINT_H

#include "answer/view.h"
#include "base/json.h"
#include "diagnose/verdicts.h"
#include "symbols/call_sites.h"

// Prints the first `most` verdicts of a list: each with its evidence, its advice and what would
// refute it. The view may be one without a trace.
void ct_verdicts_print(struct ct_view *v, const struct ct_verdicts *l, size_t most);
// What a verdict ends with: its advice, and what would refute it.
void ct_verdicts_print_end(struct ct_view *v, const struct ct_verdict *one);
// The first advice of one as the field "change" of a screen; nothing without one.
void ct_verdicts_print_change(struct ct_view *v, const struct ct_verdict *one);

// Adds `verdicts`. `sites`: of the trace; NULL: there is none, and the evidence has no stacks.
void ct_verdicts_add_json(struct ct_json *j, const struct ct_verdicts *l,
                          struct ct_call_sites *sites);
// The same of several traces: with `process_indexes`.
void ct_verdicts_add_json_of_processes(struct ct_json *j, const struct ct_verdicts *l);

#endif

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
// "--kv-cache-memory-bytes 8G -> 7G (vLLM 0.10.2 and later): why", without the end of the line.
void ct_verdicts_print_advice(struct ct_view *v, const struct ct_advice *a);

// Adds a list of verdicts; `key` is "verdicts". `sites`: of the trace; NULL: there is none, and the
// evidence has no stacks.
void ct_verdicts_add_json(struct ct_json *j, const char *key, const struct ct_verdicts *l,
                          struct ct_call_sites *sites);
// The same of several traces: with `process_indexes`.
void ct_verdicts_add_json_of_processes(struct ct_json *j, const char *key,
                                       const struct ct_verdicts *l);

#endif

// SPDX-License-Identifier: Apache-2.0
// Verdicts in JSON.
#ifndef CT_VERDICTS_JSON_H
#define CT_VERDICTS_JSON_H

#include "base/json.h"
#include "diagnose/verdicts.h"
#include "symbols/call_sites.h"

// Adds a list of verdicts; `key` is "verdicts". `sites`: of the trace; NULL: there is none, and the
// evidence has no stacks.
void ct_verdicts_add_json(struct ct_json *j, const char *key, const struct ct_verdicts *l,
                          struct ct_call_sites *sites);
// The same of several traces: with `process_indexes`.
void ct_verdicts_add_json_of_processes(struct ct_json *j, const char *key,
                                       const struct ct_verdicts *l);

#endif

// SPDX-License-Identifier: Apache-2.0
// Verdicts in JSON.
#ifndef CT_VERDICTS_JSON_H
#define CT_VERDICTS_JSON_H

#include "base/json.h"
#include "diagnose/verdicts.h"

// Adds a list of verdicts; `key` is "verdicts".
void ct_verdicts_add_json(struct ct_json *j, const char *key, const struct ct_verdicts *l);

#endif

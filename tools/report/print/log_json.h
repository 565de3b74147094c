// SPDX-License-Identifier: Apache-2.0
// What a server's log says, in JSON.
#ifndef CT_LOG_JSON_H
#define CT_LOG_JSON_H

#include "base/json.h"
#include "cli/arguments.h"
#include "text/facts.h"

// Adds an object, or null if `f` is NULL.
void ct_log_add_json(struct ct_json *j, const char *key, const struct ct_text_facts *f,
                     const struct ct_arguments *o);

#endif

// SPDX-License-Identifier: Apache-2.0
// Phases and accounts as JSON. JSON.md documents each key.
#ifndef CT_ACCOUNT_JSON_H
#define CT_ACCOUNT_JSON_H

#include "analyze/account.h"
#include "base/json.h"

// Adds a phase; null if it is not known.
void ct_account_json_add_phase(struct ct_json *j, const char *key, const struct ct_phase_at *at);
// Adds what the memory that a stack asks for is for; null if that is not known.
void ct_account_json_add_component(struct ct_json *j, const char *key, struct ct_phases *phases,
                                   uint32_t stack);
// Adds an account; null if there is none.
void ct_account_json_add(struct ct_json *j, const char *key, const struct ct_account *a);
// Adds `account` of a device: at the crossing, at the peak (NULL: it has none), and at the end.
void ct_account_json_add_moments(struct ct_json *j, const struct ct_account *crossing,
                                 const struct ct_account *peak, const struct ct_account *end);

#endif

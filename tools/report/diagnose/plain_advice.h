// SPDX-License-Identifier: Apache-2.0
// Advice that needs no figures: the same by a trace and by a text.
#ifndef CT_PLAIN_ADVICE_H
#define CT_PLAIN_ADVICE_H

#include "diagnose/server_settings.h"
#include "diagnose/verdicts.h"

// Adds what plain_advice.def has for the verdict's scenario and the program; `log` (may be NULL)
// says what a setting is now.
void ct_plain_advice_add(struct ct_verdict *v, enum ct_framework program,
                         const struct ct_text_facts *log);
// Adds advice on the server's option for a role, with its values of today and of tomorrow (NULL:
// not known). Returns 0 if the server has no such option.
int ct_plain_advice_option(struct ct_verdict *v, enum ct_framework server, enum ct_option_role role,
                           const char *from, const char *to, const char *why);
// Segments that grow, by the variable of the environment: `is_on` if they do already, `from` what
// the variable is (NULL: not known, or not set).
void ct_plain_advice_expandable(struct ct_verdict *v, enum ct_framework server, int is_on,
                                const char *variable, const char *from);
// For weights that do not fit, and for their conversion.
void ct_plain_advice_weights(struct ct_verdict *v, enum ct_framework server, const char *from,
                             int64_t ranks);
void ct_plain_advice_repack(struct ct_verdict *v, enum ct_framework server, const char *from,
                            int64_t ranks);

#endif

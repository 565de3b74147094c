// SPDX-License-Identifier: Apache-2.0
// Advice that needs no figures: the same by a trace and by a text.
#ifndef CT_PLAIN_ADVICE_H
#define CT_PLAIN_ADVICE_H

#include "diagnose/verdicts.h"

// Adds what plain_advice.def has for the verdict's scenario.
void ct_plain_advice_add(struct ct_verdict *v);
// Twice as many GPUs.
void ct_plain_advice_ranks(struct ct_verdict *v, const char *from, int64_t ranks, const char *why);
// For weights that do not fit. `from` is the setting of today, `ranks` its number; NULL and 0: not
// known.
void ct_plain_advice_weights(struct ct_verdict *v, const char *from, int64_t ranks);

#endif

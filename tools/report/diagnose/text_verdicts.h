// SPDX-License-Identifier: Apache-2.0
// Verdicts on a text alone: an error message or a log, without a trace. Confidence is lower than
// that of a trace that shows the same.
#ifndef CT_TEXT_VERDICTS_H
#define CT_TEXT_VERDICTS_H

#include "diagnose/verdicts.h"
#include "text/facts.h"

// Adds the verdicts, in the order of confidence. There is at least one.
void ct_text_verdicts_find(const struct ct_text_facts *f, struct ct_verdicts *v);
// The out-of-memory message with the most figures, or NULL.
const struct ct_text_fact *ct_text_verdicts_main_oom(const struct ct_text_facts *f);

#endif

// SPDX-License-Identifier: Apache-2.0
// Verdicts on errors that name their kind themselves: vLLM's, other servers', the host's, the
// driver's.
#ifndef CT_TEXT_ERRORS_H
#define CT_TEXT_ERRORS_H

#include "diagnose/verdicts.h"
#include "text/facts.h"

// `oom` is the out-of-memory message that the same text has, or NULL.
void ct_text_errors_judge(const struct ct_text_facts *f, const struct ct_text_fact *error,
                          const struct ct_text_fact *oom, struct ct_verdicts *v);
// The same for a wrapper, which reports an error that the text does not have.
void ct_text_errors_judge_wrapper(const struct ct_text_fact *wrapper, struct ct_verdicts *v);

#endif

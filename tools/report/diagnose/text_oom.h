// SPDX-License-Identifier: Apache-2.0
// Verdicts on an out-of-memory message of PyTorch's allocator or of a CUDA call, by its own
// figures, its traceback, and what a log says around it.
#ifndef CT_TEXT_OOM_H
#define CT_TEXT_OOM_H

#include "diagnose/verdicts.h"
#include "text/facts.h"

// Adds the figures of an out-of-memory message to a verdict that rests on another line.
void ct_text_oom_add_evidence(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                              struct ct_verdict *v);
void ct_text_oom_judge(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                       struct ct_verdicts *v);

#endif

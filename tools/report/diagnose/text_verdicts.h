// SPDX-License-Identifier: Apache-2.0
// Verdicts on a text alone: an error message or a log, without a trace. Confidence is lower than
// that of a trace that shows the same.
#ifndef CT_TEXT_VERDICTS_H
#define CT_TEXT_VERDICTS_H

#include "diagnose/rules.h"
#include "text/facts.h"

// Adds the verdicts, in the order of confidence. There is at least one.
void ct_text_verdicts_find(const struct ct_text_facts *f, struct ct_verdicts *v);
// The out-of-memory message with the most figures, or NULL.
const struct ct_text_fact *ct_text_verdicts_main_oom(const struct ct_text_facts *f);

static inline struct ct_human_text ct_text_size(int64_t bytes) {
    return ct_iec(bytes > 0 ? (uint64_t)bytes : 0);
}

// What to change, by the settings and figures that a text has. A value is only named where the text
// has what it is computed from.

// The value of a setting as written, or NULL.
const char *ct_text_advice_setting(const struct ct_text_facts *f, enum ct_text_flag flag);
// The share of the device that the server's budget has, in millionths: of the settings, or of a
// line that names it; 0: not known.
int64_t ct_text_advice_share(const struct ct_text_facts *f);
// How many GPUs work on one model, by the settings; 0: not known.
int64_t ct_text_advice_ranks(const struct ct_text_facts *f);
// Adds advice to lower the budget by `missing` bytes, or (negative) to raise it; 0: lower it, and
// CT_TEXT_MORE: raise it, by how much is not known. What the text lacks for a value is said. `why`
// is what to do, in the words of the scenario ("make the KV cache smaller").
#define CT_TEXT_MORE (-1)
void ct_text_advice_budget(const struct ct_text_facts *f, struct ct_verdict *v, int64_t missing,
                           const char *why);
// Adds advice to raise the budget by more than `missing` bytes: how much more is not known.
void ct_text_advice_least_budget(const struct ct_text_facts *f, struct ct_verdict *v,
                                 int64_t missing);
// Adds advice to let fewer requests run at once.
void ct_text_advice_requests(const struct ct_text_facts *f, struct ct_verdict *v);
// Adds the advice of a scenario. `oom` may be NULL.
void ct_text_advice_add(const struct ct_text_facts *f, struct ct_verdict *v,
                        const struct ct_text_fact *oom);

// The figures of a fact, and its line; NULL: none are known.
void ct_text_figures_read(struct ct_figures *n, const struct ct_text_fact *e);
// The device that it names; -1: none.
int ct_text_device(const struct ct_text_fact *e);

// Verdicts on errors that name their kind themselves (vLLM's, other servers', the host's, the
// driver's), and on wrappers, which report an error that the text does not have. `oom` is the
// out-of-memory message that the same text has, or NULL.
void ct_text_errors_judge(const struct ct_text_facts *f, const struct ct_text_fact *error,
                          const struct ct_text_fact *oom, struct ct_verdicts *v);

// Verdicts on an out-of-memory message of PyTorch's allocator or of a CUDA call, by its own
// figures, its traceback, and what a log says around it.

// Adds the figures of an out-of-memory message to a verdict that rests on another line.
void ct_text_oom_add_evidence(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                              struct ct_verdict *v);
void ct_text_oom_judge(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                       struct ct_verdicts *v);

#endif

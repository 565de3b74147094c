// SPDX-License-Identifier: Apache-2.0
// Verdicts as text.
#ifndef CT_VERDICTS_TEXT_H
#define CT_VERDICTS_TEXT_H

#include "answer/view.h"
#include "diagnose/verdicts.h"

// Prints the first `most` verdicts of a list: each with its evidence, its advice and what would
// refute it. The view may be one without a trace.
void ct_verdicts_print(struct ct_view *v, const struct ct_verdicts *l, size_t most);
// "--kv-cache-memory-bytes 8G -> 7G (vLLM 0.10.2 and later): why", without the end of the line.
void ct_verdicts_print_advice(struct ct_view *v, const struct ct_advice *a);

#endif

// SPDX-License-Identifier: Apache-2.0
// explain of a trace: its verdicts in full.
#ifndef CT_EXPLAIN_TRACE_H
#define CT_EXPLAIN_TRACE_H

#include "print/view.h"

// Prints the verdicts of an open trace, with their evidence and advice, as text or JSON.
int ct_explain_trace(struct ct_view *v);

#endif

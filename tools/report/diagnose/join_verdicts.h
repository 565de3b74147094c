// SPDX-License-Identifier: Apache-2.0
// Puts the verdicts of a trace and of what stands beside it (a log, metrics) into one list.
#ifndef CT_JOIN_VERDICTS_H
#define CT_JOIN_VERDICTS_H

#include "diagnose/verdicts.h"

// Joins `from` into `to`, in the order of confidence, and leaves `from` empty. Where both have a
// scenario, the verdict of `to` stays, with the evidence of both. Where they name different ones, a
// failed request of the trace weighs more than a text about it; but a trace in which no request
// failed says nothing against a server that refused to start, or to serve fast. `source` names
// where `from` is from: "the log".
void ct_verdicts_join(struct ct_verdicts *to, struct ct_verdicts *from, const char *source);

#endif

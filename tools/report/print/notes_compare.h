// SPDX-License-Identifier: Apache-2.0
// Whether what the recorder noted of a trace is what its events say. `info` compares each chunk;
// this compares the figures of a whole pass, which cost nothing more.
#ifndef CT_NOTES_COMPARE_H
#define CT_NOTES_COMPARE_H

#include "answer/summary_read.h"

// Warns if they differ. Compares nothing where the pass was not over the whole trace, or where a
// part of it cannot be read.
void ct_notes_compare_warn(const struct ct_summary *s);

#endif

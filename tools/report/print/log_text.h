// SPDX-License-Identifier: Apache-2.0
// What a server's log says, as text.
#ifndef CT_LOG_TEXT_H
#define CT_LOG_TEXT_H

#include "answer/view.h"
#include "text/facts.h"

// Prints the figures of the start, the settings, the step that failed and the load, one line for
// each that the log has. Returns how many lines that were.
unsigned ct_log_print(struct ct_view *v, const struct ct_text_facts *f);

#endif

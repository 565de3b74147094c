// SPDX-License-Identifier: Apache-2.0
// The name of a file that a command makes of a trace.
#ifndef CT_OUTPUT_NAME_H
#define CT_OUTPUT_NAME_H

#include "answer/view.h"

// Sets `to` to --output, else to the name of the trace without its folder, with another ending
// (".pickle") in place of ".zst": a file in the working directory. Returns 0, or -1 with an error:
// it exists and --force was not given, or the trace is standard input and has no name.
int ct_output_name(const struct ct_arguments *o, const char *trace, const char *ending, char *to,
                   size_t size, struct ct_error *error);

#endif

// SPDX-License-Identifier: Apache-2.0
// What `help` and --help print: the tables in arguments.def and cutrace/model/noise.def.
#ifndef CT_HELP_H
#define CT_HELP_H

#include <stdio.h>

#include "cli/argument_table.h"

// Texts that --help and the manual share.
#define CT_HELP_SIZES \
    "sizes: B; KiB, MiB, GiB, TiB and K, M, G, T are powers of 1024; KB, MB, GB, TB of 1000"
#define CT_HELP_TIMES                                                                            \
    "times: since the start of the recording 4.05, 4.05s, 90m, 1h30m, 1:02:03, 3d05:49:47; UTC " \
    "16:56:17Z, 2026-11-22T12:52:17Z; oom: when memory ran out (with --capacity: when the "      \
    "budget was exceeded), peak: when the most was allocated; #1822, event:1822: that event; oom-60s, #1822+5m: so long before or after it"
#define CT_HELP_EXIT_CODES                                                                          \
    "exit codes: 0 done, 1 a condition of --fail-on holds, 2 wrong usage, 3 not a readable trace, " \
    "4 the end of the trace is missing (--strict: or anything else; --fail-on: or a condition is "  \
    "not known), 5 cannot write, 6 out of memory"

void ct_help_print(FILE *out); // all commands and options
void ct_help_print_command(FILE *out, enum ct_command command);

// The table of noise (cutrace/model/noise.def) as the document NOISE.md.
void ct_noise_document_print(FILE *out);

#endif

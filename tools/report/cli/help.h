// SPDX-License-Identifier: Apache-2.0
// What --help prints, from the table in arguments.def.
#ifndef CT_HELP_H
#define CT_HELP_H

#include <stdio.h>

#include "cli/argument_table.h"

void ct_help_print(FILE *out); // all commands and options
void ct_help_print_command(FILE *out, enum ct_command command);

#endif

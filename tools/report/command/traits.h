// SPDX-License-Identifier: Apache-2.0
// What holds for some commands only.
#ifndef CT_COMMAND_TRAITS_H
#define CT_COMMAND_TRAITS_H

#include "cli/arguments.h"

// Whether the command says something of the trace. The others copy it, or change it.
int ct_command_is_about_trace(enum ct_command command);
// Whether it shows frames of stacks, so that source lines matter.
int ct_command_shows_frames(enum ct_command command);
// Whether late durations and stacks of frees matter: to lists of events, to copies, and to a check,
// which finds what a copy would have.
int ct_command_needs_details(enum ct_command command);

#endif

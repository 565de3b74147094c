// SPDX-License-Identifier: Apache-2.0
// Whether the loader will preload the library into a program.
#ifndef CT_INSPECT_PROGRAM_H
#define CT_INSPECT_PROGRAM_H

#include "run/findings.h"

// `command` is NULL-terminated. Follows scripts to their interpreters, and commands that start
// another one (wrappers.def) to that.
void ct_inspect_command(struct ct_findings *f, char *const *command);
// One file: `name` stands for it in the findings.
void ct_inspect_program(struct ct_findings *f, const char *path, const char *name);

#endif

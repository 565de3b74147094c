// SPDX-License-Identifier: Apache-2.0
// What cutrace doctor looks at: whether the loader will preload the library into a program, and
// what tracing needs besides.
#ifndef CT_INSPECT_H
#define CT_INSPECT_H

#include "run/findings.h"

// ---- the program (inspect_program.c) ------------------------------------------------------------

// `command` is NULL-terminated. Follows scripts to their interpreters, and commands that start
// another one (wrappers.def) to that.
void ct_inspect_command(struct ct_findings *f, char *const *command);
// One file: `name` stands for it in the findings.
void ct_inspect_program(struct ct_findings *f, const char *path, const char *name);

// ---- the library, the driver, a place for the traces (inspect_system.c) -------------------------

void ct_inspect_library(struct ct_findings *f);
void ct_inspect_environment(struct ct_findings *f);
// `pattern`: of --output, or NULL.
void ct_inspect_output(struct ct_findings *f, const char *pattern);
// Loads the driver's library in a process of its own; CUDA is not initialised.
void ct_inspect_driver(struct ct_findings *f);
// A process that runs.
void ct_inspect_process(struct ct_findings *f, unsigned long pid);

#endif

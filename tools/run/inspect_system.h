// SPDX-License-Identifier: Apache-2.0
// What tracing needs besides the program: the library, the driver, a place for the traces.
#ifndef CT_INSPECT_SYSTEM_H
#define CT_INSPECT_SYSTEM_H

#include "run/findings.h"

void ct_inspect_library(struct ct_findings *f);
void ct_inspect_environment(struct ct_findings *f);
// `pattern`: of --output, or NULL.
void ct_inspect_output(struct ct_findings *f, const char *pattern);
// Loads the driver's library in a process of its own; CUDA is not initialised.
void ct_inspect_driver(struct ct_findings *f);
// A process that runs.
void ct_inspect_process(struct ct_findings *f, unsigned long pid);

#endif

// SPDX-License-Identifier: Apache-2.0
// INFO about the environment of the process: process.env.NAME, by environment.def and
// CUTRACE_ENV_ALLOW.
#ifndef CT_WRITE_ENVIRONMENT_H
#define CT_WRITE_ENVIRONMENT_H

// Drain lock held.
void ct_environment_publish(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// cutrace doctor: whether tracing a command, or a process that runs, works, and why not.
#ifndef CT_DOCTOR_H
#define CT_DOCTOR_H

// `argv` begins after "doctor". Returns the exit code.
int ct_doctor_main(int argc, char **argv);

#endif

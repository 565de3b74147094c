// SPDX-License-Identifier: Apache-2.0
// Runs cutrace-report and takes what it writes.
#ifndef CT_CALL_REPORT_H
#define CT_CALL_REPORT_H

// The program: beside this one, or in PATH. NULL: it is not there. Allocated.
char *ct_call_report_find(void);
// Its standard output, NUL-terminated and allocated; NULL: it could not be run, or a signal that
// ends programs came meanwhile, and then it was ended. `arguments`: as of execv. Its standard error
// is dropped. ct_supervise has blocked the signals.
char *ct_call_report(const char *program, char *const *arguments);

#endif

// SPDX-License-Identifier: Apache-2.0
// Prints a line on stderr after the driver ran out of memory: at most one a minute, and none with
// CUTRACE_QUIET. Drain lock held.
#ifndef CT_WRITE_OOM_NOTICE_H
#define CT_WRITE_OOM_NOTICE_H

#include <cutrace/format/format.h>

// Remembers an OOM event for the next line; between two lines, the first one. Its numbers are the
// process's own, not yet the file's.
void ct_oom_notice_note(const struct ct_event *event);

// Prints the line for the remembered event, if there is one.
void ct_oom_notice_print(void);

void ct_oom_notice_reinit_child(void);

#endif

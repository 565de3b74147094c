// SPDX-License-Identifier: Apache-2.0
// Whether the process that writes a journal still runs. A pid alone does not tell: another process
// may have it by now.
#ifndef CT_PROCESS_ALIVE_H
#define CT_PROCESS_ALIVE_H

#include <cutrace/format/journal.h>
#include <stdint.h>

// The pid of the process as this program sees it, 0 if it has ended. In a container it may differ
// from the journal's.
uint32_t ct_process_alive_pid(const struct ct_journal *journal);
// Whether the process of the journal `fd`, open for reading, still records. It may be in another
// container, where this program does not see its pid. (A child of a bare clone(2) keeps its
// parent's journal mapped until its first recorded call: so long the parent counts as one that
// records.)
int ct_process_alive_records(const struct ct_journal *journal, int fd);
// When a process started (field 22 of /proc/PID/stat), 0 if it does not run any more.
uint64_t ct_process_alive_start_time(uint32_t pid);

#endif

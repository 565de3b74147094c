// SPDX-License-Identifier: Apache-2.0
// Who still writes: to a file any process, to a journal its own.
#ifndef CT_WRITERS_H
#define CT_WRITERS_H

#include <cutrace/format/journal.h>
#include <stdint.h>

// ---- files --------------------------------------------------------------------------------------

// Whether any process can still write to a file: one that has it open for writing, or mapped. The
// kernel is asked, so the answer holds across containers, whose processes do not see each other's
// pids, and a recorder needs nothing for it: its journal is mapped as long as it lives.

enum ct_file_use {
    CT_FILE_USE_UNKNOWN, // another user's file, or of a file system that cannot tell
    CT_FILE_IN_USE,
    CT_FILE_UNUSED,
};

// `fd` is open for reading alone. Not to be asked about a file that a process which lives opens for
// writing now and then: it could have to wait for the answer.
enum ct_file_use ct_file_use_find(int fd);

// ---- processes ----------------------------------------------------------------------------------

// Whether the process that writes a journal still runs. A pid alone does not tell: another process
// may have it by now.

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

// SPDX-License-Identifier: Apache-2.0
// The file of a journal, as a tool finds, checks and removes it. What it checks: where the file is,
// whether this version understands it, and who still writes: to a file any process, to a journal
// its own.
#ifndef CT_JOURNAL_FILE_H
#define CT_JOURNAL_FILE_H

#include <cutrace/format/journal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The length of the trace's name, or path, in that of a journal; 0: it is no journal's.
static inline size_t ct_journal_stem(const char *name) {
    const size_t n = strlen(name), suffix = sizeof CT_JOURNAL_SUFFIX - 1;
    return n > suffix && strcmp(name + n - suffix, CT_JOURNAL_SUFFIX) == 0 ? n - suffix : 0;
}

// Opens the journal of that name in a folder (a descriptor, or AT_FDCWD); `access` is O_RDONLY or
// O_RDWR. The only link that is followed is one that a recorder made: to a file in memory, of the
// link's owner. A descriptor of a regular file, or -1 with errno; ENOLINK: that file is not here.
int ct_journal_open(int folder, const char *name, int access);
// What that errno means, as the end of a sentence.
const char *ct_journal_open_error(int error);
// NULL, or why this program cannot read a journal with that header, as the end of a sentence.
const char *ct_journal_probe_mismatch(const struct ct_journal *header);

// Removes a journal in a folder (a descriptor, or AT_FDCWD), and before it the file in memory that
// it links to: the other way round nobody would find that again. `of`: a descriptor of the journal
// as it was read, so that another file that has its name by now stays; -1: whatever has the name.
// 0, or -1 with errno.
int ct_journal_remove(int folder, const char *name, int of);

// ---- who writes to a file -----------------------------------------------------------------------

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

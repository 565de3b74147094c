// SPDX-License-Identifier: Apache-2.0
// The file of the journal: chooses its place, creates it, opens it again and removes it. Its
// descriptor stays open where the program does not see it (base/files.h); else the file is opened
// again by its name. The caller gives each descriptor to ct_journal_file_close. Drain lock held,
// but any thread may open and close it.
#ifndef CT_STORE_JOURNAL_FILE_H
#define CT_STORE_JOURNAL_FILE_H

#include <stdint.h>

// Creates an empty file beside the trace. Returns a descriptor or -errno.
int ct_journal_file_create_beside(const char *trace_path);

// Creates an empty file on a tmpfs: beside the trace if that lies on one, else in /dev/shm with a
// link beside the trace. Returns a descriptor or -errno.
int ct_journal_file_create_on_tmpfs(const char *trace_path, uint64_t trace_id);

// Whether writing to a mapped file beside the trace could raise a SIGBUS in the host. Such a
// journal belongs on a tmpfs.
int ct_journal_file_is_unsafe_to_map(const char *trace_path);

// Bytes by which the file may grow, as far as that is known.
uint64_t ct_journal_file_get_free_bytes(int fd);

// Opens the file again. Returns a descriptor, or -1 if the file is gone. Any thread.
int ct_journal_file_open(void);
void ct_journal_file_close(int fd);

// Removes the file and its link, unless another file has taken their names.
void ct_journal_file_remove(void);

// In a forked child: forgets the parent's file.
void ct_journal_file_reinit_child(void);

// ---- the memory of CUTRACE_MEMORY ---------------------------------------------------------------

// How much memory CUTRACE_MEMORY may use for chunks: what was asked for, but at most half of what
// is free; and the text to report when that is less. Drain lock held.

// Bytes for the ring of chunks where the file system has free_bytes; 0 if that is too little to be
// useful. Half of them stays free, because the host and other programs use /dev/shm, too.
uint64_t ct_journal_budget_get_bytes(uint64_t free_bytes);

// How many of `bytes` are reserved at the start; the rest is reserved as the ring grows.
uint64_t ct_journal_budget_get_first_bytes(uint64_t bytes);

// Reports that there is no ring (rc: -errno), or that it has only `ready` bytes from now on.
void ct_journal_budget_report_failure(int rc);
void ct_journal_budget_report_shrink(uint64_t ready);

// The last report since the previous call, as the text of a NOTE; NULL if there was none.
const char *ct_journal_budget_take_error(void);

#endif

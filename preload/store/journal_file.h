// SPDX-License-Identifier: Apache-2.0
// The file of the journal: where it lies, how it comes to be and goes. Descriptors are the caller's to close: none is
// kept, since hosts close and count them; what needs the file later opens it again by its name.
#ifndef CT_JOURNAL_FILE_H
#define CT_JOURNAL_FILE_H

#include <stdint.h>

// Makes an empty one beside the trace. A descriptor, or -errno.
int ct_journal_file_create_beside(const char *trace_path);

// Makes an empty one that no disk sees: beside the trace if that lies in memory, too, else in /dev/shm with a link beside the
// trace. A descriptor, or -errno.
int ct_journal_file_create_on_tmpfs(const char *trace_path, uint64_t trace_id);

// Whether a file beside the trace may not be mapped, because the host would come to harm: it belongs into memory then.
int ct_journal_file_is_unsafe_to_map(const char *trace_path);

// Bytes that a file may still take where it lies, as far as that is known.
uint64_t ct_journal_file_get_free_bytes(int fd);

// A descriptor, or -1 if it is not there any more.
int ct_journal_file_open(void);

// Removes it and its link, but nothing that somebody else has put in their places.
void ct_journal_file_remove(void);

// A forked child: it is the parent's.
void ct_journal_file_reinit_child(void);

#endif

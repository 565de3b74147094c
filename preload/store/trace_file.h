// SPDX-License-Identifier: Apache-2.0
// The file of the trace: how it comes to be, and how chunks get into it whatever the host does to
// it. Drainer only, with signals blocked (a file-size limit raises SIGXFSZ).
#ifndef CT_OUTPUT_H
#define CT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

// Creates the file that CUTRACE_OUTPUT asks for, or one beside it (.1, .2, ...), or one in $TMPDIR
// or /tmp; before that, CUTRACE_KEEP removes old ones. Returns 0 or -errno; says on stderr what is
// not as asked.
int ct_trace_file_open(void);

// Absolute path of the open trace, "" if there is none.
const char *ct_trace_file_get_path(void);

// Puts a chunk into the file. n is a multiple of 8, `seq` is higher than all before, `flags` are
// the chunk's (SEGMENT counts here). When CUTRACE_MAX_SIZE is reached, or the disk takes no more,
// the oldest chunks go. -errno: the chunk is not in the file, which is valid all the same; it may
// be tried again later. -EBADF: the file is gone for good. -EFBIG: the chunk is larger than
// CUTRACE_MAX_SIZE, or has room only where the SEGMENT chunk is that it needs. Says the first failure of its kind on stderr.
int ct_trace_file_append(const void *chunk, size_t n, uint64_t seq, unsigned flags);

// Chunks first_seq .. last_seq (also such that are still to come) are not overwritten: those around
// the first and around the last refused allocation. A new call for `which` takes the place of the
// one before; first_seq > last_seq: none. Begin with a SEGMENT chunk: without it a reader cannot
// use the others. At most half of the file is kept in this way; beyond that whole segments are let
// go, the oldest of the longer range first.
enum ct_protected { CT_PROTECTED_FIRST_OOM, CT_PROTECTED_LAST_OOM, CT_PROTECTED_RANGES };
void ct_trace_file_protect(uint64_t first_seq, uint64_t last_seq, enum ct_protected which);

// From this seq on, all chunks up to the newest are in the file.
uint64_t ct_trace_file_get_oldest_seq(void);

// Bytes of all chunks ever written, and of the file as it is.
uint64_t ct_trace_file_get_written_bytes(void);
uint64_t ct_trace_file_get_size(void);

// Bytes that the file may have: CUTRACE_MAX_SIZE, or what it has now, if the disk gives no more. 0: no
// bound.
uint64_t ct_trace_file_get_capacity(void);

// What has gone wrong with the file since the last call, as the text of a NOTE; NULL: nothing new.
const char *ct_trace_file_take_error(void);

// A clean end: gives unused space back. More chunks may follow all the same.
int ct_trace_file_trim(void);

// A forked child: closes the parent's file.
void ct_trace_file_reinit_child(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// The file of the trace: creates it and puts chunks into it, whatever the host does to its
// descriptor, its name or its size. Drain lock held, with signals blocked, because a file-size
// limit raises SIGXFSZ.
#ifndef CT_STORE_TRACE_FILE_H
#define CT_STORE_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "store/file_ring.h"

// Removes old traces as CUTRACE_KEEP says, then creates the file that CUTRACE_OUTPUT names. If that
// name is taken, appends .1, .2, ... to it; if its folder cannot be written, uses $TMPDIR or /tmp.
// Returns 0 or -errno. Reports on stderr what differs from CUTRACE_OUTPUT, and the file's path if
// CUTRACE_ANNOUNCE asks for it, and appends the path to the file of CUTRACE_TRACE_LIST.
int ct_trace_file_open(void);

// The absolute path of the open trace; "" if there is none.
const char *ct_trace_file_get_path(void);

// Puts a chunk into the file. n is a multiple of 8, `seq` is higher than that of all chunks before,
// `flags` are the chunk's. Overwrites the oldest chunks when the file has reached CUTRACE_MAX_SIZE
// or the disk is full. Returns 0, or -errno: the chunk is not in the file, the file is valid, and
// the caller may try again. -EBADF: the file is lost for good. -EFBIG: the chunk is larger than
// CUTRACE_MAX_SIZE, or fits only where the restart chunk that it depends on lies. Reports the first
// error of each kind on stderr.
int ct_trace_file_append(const void *chunk, size_t n, uint64_t seq, unsigned flags);

// Puts a provisional chunk into the file: the chunk that is appended next, as far as it goes. It
// replaces the one before. Returns 0, or -errno: there is no room for it. Reports no error, because
// nothing is lost.
int ct_trace_file_put_provisional(const void *chunk, size_t n);

// Removes the provisional chunk: what it was a part of is given up.
void ct_trace_file_drop_provisional(void);

// The last error of the file since the previous call, as the text of a NOTE; NULL if there was
// none.
const char *ct_trace_file_take_error(void);

// Cuts off free space at the end of the file, at a clean exit. More chunks may follow. Returns 0 or
// -errno.
int ct_trace_file_trim(void);

// In a forked child: closes the parent's file.
void ct_trace_file_reinit_child(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// The file of the trace: how it comes to be, and how chunks get into it whatever the host does to
// it. Drainer only, with signals blocked (a file-size limit raises SIGXFSZ).
#ifndef CT_OUTPUT_H
#define CT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

// Creates the file that CUTRACE_OUTPUT asks for, or one beside it (.1, .2, ...), or one in $TMPDIR
// or /tmp. Returns 0 or -errno; says on stderr what is not as asked.
int ct_output_open(void);

// Absolute path of the open trace, "" if there is none.
const char *ct_output_path(void);

// Appends. All or nothing: after a failure the file ends where it ended before. -errno; -EBADF: the
// file is gone for good. Says the first failure of its kind on stderr.
int ct_output_append(const void *data, size_t n);

// Overwrites bytes that are in the file already.
int ct_output_patch(uint64_t offset, const void *data, size_t n);

// Bytes in the file.
uint64_t ct_output_bytes(void);

// A forked child: closes the parent's file.
void ct_output_forked(void);

#endif

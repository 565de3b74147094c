// SPDX-License-Identifier: Apache-2.0
// The names of threads in the trace.
#ifndef CT_WRITE_THREAD_NAME_H
#define CT_WRITE_THREAD_NAME_H

#include <cutrace/format/journal.h>

// Reads the name of a thread now; if the thread has ended, its name at its first event. Returns its
// length; 0: it has none, or CUTRACE_PRIVATE leaves names out.
size_t ct_thread_name_read(const struct ct_journal_thread *t, char *name, size_t size);

#endif

// SPDX-License-Identifier: Apache-2.0
// Traces whose recording is over for certain, and what they are worth.
#ifndef CT_WATCH_FINISHED_H
#define CT_WATCH_FINISHED_H

#include "watch/folder.h"

// Whether nothing writes the trace any more: it has an end, or its process left its journal, and no
// process has one of both open for writing or mapped.
int ct_finished_is(int folder, const char *path, const char *name);
// Of a trace whose journal is gone: whether it was sealed, so that its process had been killed.
int ct_finished_was_sealed(const char *folder, const char *name, uid_t owner);
// Whether a call for memory failed in it for want of memory. `fd`: the trace.
int ct_finished_has_oom(int fd, const char *name);

#endif

// SPDX-License-Identifier: Apache-2.0
// A copy of a trace, or of a range of time of it. A copy that begins later begins with the exact
// state at that moment: a checkpoint, and the coarse history of the time before. What was left out
// is stated in INFO (FORMAT.md, section 4: trim.*).
#ifndef CT_COPY_TRACE_H
#define CT_COPY_TRACE_H

#include "base/error.h"
#include "copy/trace_writer.h"
#include "read/trace.h"

struct ct_copy_request {
    uint64_t from_ns, to_ns; // 0 and UINT64_MAX: everything
    // See struct ct_trace_writer. `rename_info` gives the value of an INFO pair another one (valid
    // until the next call) or, with length UINT32_MAX, leaves the pair out.
    int (*put)(void *user, const void *bytes, size_t n);
    struct ct_string (*rename)(void *user, enum ct_name_role role, const struct ct_frame *frame,
                               const struct ct_string *name);
    struct ct_string (*rename_info)(void *user, const struct ct_string *key,
                                    const struct ct_string *value);
    void *user;        // of `put`
    void *rename_user; // of the other two
    const char *level; // of the scrub, for INFO; NULL: none
};

struct ct_copied {
    uint64_t before, events,
        after;        // events that were left out before and after, and that are there
    uint64_t from_ns; // where the copy begins, 0: with the trace
    int moved;        // it begins earlier than asked for, where the trace's own checkpoint is
};

// The trace has everything (`details`), is open and has ended. Returns 0, or -1 with an error:
// there is no event in the range (CT_EXIT_USAGE), or `put` failed (CT_EXIT_OUTPUT and no text).
int ct_copy_trace(struct ct_trace *t, const struct ct_copy_request *request,
                  struct ct_copied *copied, struct ct_error *error);

#endif

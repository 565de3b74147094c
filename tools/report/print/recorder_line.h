// SPDX-License-Identifier: Apache-2.0
// The line that the recorder wrote to stderr about the failure that crossed capacity, derived from
// the trace by the recorder's own functions (model/oom_message.h). BUNDLE.md says where it can
// differ.
#ifndef CT_RECORDER_LINE_H
#define CT_RECORDER_LINE_H

#include "analyze/incidents.h"
#include "answer/view.h"

// Writes the line without its newline and the path of the trace, which the trace does not have.
// Returns 0 if the recorder wrote none: PyTorch's retry got the memory (`is_retried`), or
// CUTRACE_QUIET was set.
int ct_recorder_line_format(const struct ct_view *v, const struct ct_oom_event *o, int is_retried,
                            char *to, size_t size);

#endif

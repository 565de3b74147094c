// SPDX-License-Identifier: Apache-2.0
// Saying on stderr, in the thread whose request for memory failed, what write/oom_notice.h has to
// say of it.
#ifndef CT_FAILED_CALL_H
#define CT_FAILED_CALL_H

#include <cutrace/format/format.h>

// After the failed call's event was published, while the writer thread runs: wakes that thread, and
// returns when the line is printed, when none is to be printed, or after 150 ms at most (and one
// write to stderr); on a busy machine, where all other threads run between two tries to get the
// drain lock, after a second. A failure that is summed up with others does not wait. No lock is
// waited for without that bound; errno is kept.
void ct_failed_call_say(const struct ct_event *event);

#endif

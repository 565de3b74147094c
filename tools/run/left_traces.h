// SPDX-License-Identifier: Apache-2.0
// Says which traces a run left, and what they show.
#ifndef CT_LEFT_TRACES_H
#define CT_LEFT_TRACES_H

#include <sys/types.h>

#include "run/trace_list.h"

// One line for each trace on stderr, and the verdict if the program or a request for memory failed.
// `pid` and `status` (as of waitpid): of the program.
void ct_left_traces_print(const struct ct_trace_list *list, pid_t pid, int status);

#endif

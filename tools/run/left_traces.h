// SPDX-License-Identifier: Apache-2.0
// Which traces a run left, and what they show.
#ifndef CT_LEFT_TRACES_H
#define CT_LEFT_TRACES_H

#include <stddef.h>
#include <sys/types.h>

// The traces of a run: each process that begins one appends its path to a file, whose name is in
// CUTRACE_TRACE_LIST. So traces of other runs in the same folder are not taken for this one's.
struct ct_trace_list {
    char path[4096]; // of the file; "": there is none
    char *text;
    char **traces; // in the order in which they began, each once
    size_t count;
};

// Makes the file, in $TMPDIR, /tmp or /dev/shm. Returns 0 or -1: nowhere.
int ct_trace_list_create(struct ct_trace_list *list);
// Reads it and removes it.
void ct_trace_list_take(struct ct_trace_list *list);
void ct_trace_list_free(struct ct_trace_list *list);

// One line for each trace on stderr, and the verdict if the program or a request for memory failed.
// `pid` and `status` (as of waitpid): of the program.
void ct_left_traces_print(const struct ct_trace_list *list, pid_t pid, int status);

#endif

// SPDX-License-Identifier: Apache-2.0
// Makes the file for a bug report where a request for memory failed: TRACE.oom.zip beside the
// trace, as cutrace-report bundle makes it, once for each process. A program that caught the
// failure and goes on has it a few seconds later, any other one when it has ended. A process of its
// own makes it, with the lowest priority.
#ifndef CT_WATCH_OOM_BUNDLE_H
#define CT_WATCH_OOM_BUNDLE_H

#include <sys/types.h>

#include "watch/budget.h"

enum { CT_OOM_BUNDLE_RUNNING = 256 };

// A running process in which calls ran out of memory.
struct ct_oom_suspect {
    ino_t inode;       // of its trace
    uint64_t ooms;     // failed calls
    uint64_t since_ns; // when there were that many for the first time
    int is_judged;     // what these calls were
};

struct ct_oom_bundles {
    struct ct_map judged; // of finished traces: hash -> 1 it needs none, 2 it needs one
    struct ct_oom_suspect suspects[CT_OOM_BUNDLE_RUNNING];
    size_t next_suspect;
    // The one that is being made.
    pid_t maker;      // 0: none
    int lock, errors; // descriptors: the trace, what the maker says
    uint64_t hash;    // of the trace
    char trace[4400], file[4420];
    const char *name; // of the trace, in its path
};

// Begins one that is due, if none is being made, and tells of one that is done. `waits`: ends when
// none is due any more. Returns -1 if one could not be made, else 0.
int ct_oom_bundles_look(struct ct_oom_bundles *b, const char *folder, struct ct_budget *budget,
                        int waits, struct ct_told *told);
void ct_oom_bundles_free(struct ct_oom_bundles *b);

#endif

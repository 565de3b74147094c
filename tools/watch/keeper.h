// SPDX-License-Identifier: Apache-2.0
// Keeps a folder of traces in order while nobody looks (a sidecar): what cutrace watch --seal and
// its like do at each tick, whichever view is shown beside it.
#ifndef CT_WATCH_KEEPER_H
#define CT_WATCH_KEEPER_H

#include <stdio.h>
#include <sys/types.h>

#include "base/map.h"

// ---- told.c -------------------------------------------------------------------------------------

// Lines about what was done, and what was not and why: each reason once, however often it is found.

enum { CT_TOLD_MOST = 1024 };

struct ct_told {
    FILE *out;
    uint64_t once[CT_TOLD_MOST]; // hashes of the last lines that are told once
    size_t count;
};

// Prints a line, without control characters that a name may have.
void ct_told_print(struct ct_told *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same, unless that line was printed before.
void ct_told_print_once(struct ct_told *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// ---- seal.c -------------------------------------------------------------------------------------

// Seals what a dead process left: its journal goes into its trace, as cutrace-report copy --seal
// does it. Nobody asks for it by name here, so it is done only where the kernel says that no
// process can write to the journal any more, and only to files of this user.

enum ct_seal_result {
    CT_SEAL_NOTHING, // it is being recorded, or another program does it; or why not was told
    CT_SEAL_DONE,
    CT_SEAL_FAILED, // and it was told why
};

// The trace FOLDER/NAME, whose journal was found. `dry_run`: only says what it would do.
enum ct_seal_result ct_seal_trace(const char *folder, const char *name, int dry_run,
                                  struct ct_told *told);

// ---- budget.c -----------------------------------------------------------------------------------

// The disk budget of a folder of traces. What is removed, and in which order:
//
//   1. traces that no process records any more, each with its journal, and bundles that were made
//      here: the one whose last write is the oldest goes first,
//   2. the newest of these traces in which a call ran out of memory,
//   3. the newest bundle.
//
// The last two go only for a size; neither age nor number removes them. Nothing else is ever
// removed.

struct ct_budget_rules {
    uint64_t keep_count, keep_ns, keep_bytes; // 0: not given
};

struct ct_budget {
    struct ct_budget_rules rules;
    int dry_run;
    struct ct_map failures; // of finished traces (ct_failures_find), as far as that was needed
};

int ct_budget_is_given(const struct ct_budget_rules *rules);
// Removes what is too much. `reserve`: bytes that must be free of the budget, too; `spare`: the
// name of a trace that is not removed, or NULL. Returns 0, or -1: there is more than the budget,
// and nothing more may be removed.
int ct_budget_enforce(struct ct_budget *b, const char *folder, uint64_t reserve, const char *spare,
                      struct ct_told *told);
void ct_budget_free(struct ct_budget *b);

// ---- oom_bundle.c -------------------------------------------------------------------------------

// Makes the file for a bug report where a request for memory failed: TRACE.oom.zip beside the
// trace, as cutrace-report bundle makes it, once for each process. A program that caught the
// failure and goes on has it a few seconds later, any other one when it has ended. A process of its
// own makes it, with the lowest priority.

enum { CT_OOM_BUNDLE_RUNNING = 256 };

// A running process in which calls ran out of memory.
struct ct_oom_suspect {
    ino_t inode;       // of its trace
    uint64_t ooms;     // failed calls
    uint64_t since_ns; // when there were that many for the first time
    int is_judged;     // what these calls were
};

struct ct_oom_bundles {
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

// ---- keeper.c -----------------------------------------------------------------------------------

struct ct_keeper_options {
    int seal, bundle_on_oom, dry_run;
    struct ct_budget_rules budget;
};

struct ct_keeper {
    const struct ct_keeper_options *options;
    const char *folder;
    struct ct_told told;
    struct ct_budget budget;
    struct ct_oom_bundles bundles;
    struct ct_map retry; // hash of the path of what failed: when it is tried again
    uint64_t next_ns;    // the next look
    uint64_t now_ns;     // this one
    int has_failed;
};

// Sets one limit of --keep. 0, or -1: it cannot be understood.
int ct_keeper_set_keep(struct ct_keeper_options *o, const char *text);
// Whether it has anything to do.
int ct_keeper_is_wanted(const struct ct_keeper_options *o);
// Lines go to `out`.
void ct_keeper_begin(struct ct_keeper *k, const struct ct_keeper_options *o, const char *folder,
                     FILE *out);
// Does what is due; at most once a second.
void ct_keeper_tick(struct ct_keeper *k);
// Does all of it now. `is_last`: nothing is left for a later look.
void ct_keeper_look(struct ct_keeper *k, int is_last);
void ct_keeper_end(struct ct_keeper *k);

#endif

// SPDX-License-Identifier: Apache-2.0
// Keeps a folder of traces in order while nobody looks (a sidecar): what cutrace watch --seal and
// its like do at each tick, whichever view is shown beside it.
#ifndef CT_WATCH_KEEPER_H
#define CT_WATCH_KEEPER_H

#include "base/map.h"
#include "watch/budget.h"
#include "watch/oom_bundle.h"

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

// SPDX-License-Identifier: Apache-2.0
// The disk budget of a folder of traces. What is removed, and in which order:
//
//   1. traces that no process records any more, each with its journal, and bundles that were made
//      here: the one whose last write is the oldest goes first,
//   2. the newest of these traces in which a call ran out of memory,
//   3. the newest bundle.
//
// The last two go only for a size; neither age nor number removes them. Nothing else is ever
// removed.
#ifndef CT_WATCH_BUDGET_H
#define CT_WATCH_BUDGET_H

#include "base/map.h"
#include "watch/told.h"

struct ct_budget_rules {
    uint64_t keep_count, keep_ns, keep_bytes; // 0: not given
};

struct ct_budget {
    struct ct_budget_rules rules;
    int dry_run;
    struct ct_map has_oom; // hash of a file: 1 it has none, 2 it has; as far as that was needed
};

int ct_budget_is_given(const struct ct_budget_rules *rules);
// Removes what is too much. `reserve`: bytes that must be free of the budget, too; `spare`: the
// name of a trace that is not removed, or NULL. Returns 0, or -1: there is more than the budget,
// and nothing more may be removed.
int ct_budget_enforce(struct ct_budget *b, const char *folder, uint64_t reserve, const char *spare,
                      struct ct_told *told);
void ct_budget_free(struct ct_budget *b);

#endif

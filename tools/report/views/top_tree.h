// SPDX-License-Identifier: Apache-2.0
// top --tree: what is held, by callers from the outermost frame down.
#ifndef CT_TOP_TREE_H
#define CT_TOP_TREE_H

#include "analyze/live_at.h"
#include "answer/view.h"
#include "base/json.h"

void ct_top_tree_print(struct ct_view *v, const struct ct_live_totals *held);
// Adds the key `tree`.
void ct_top_tree_add(struct ct_view *v, struct ct_json *j, const struct ct_live_totals *held);

#endif

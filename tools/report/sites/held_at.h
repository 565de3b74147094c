// SPDX-License-Identifier: Apache-2.0
// What call sites hold in one state, of which nothing earlier is known.
#ifndef CT_HELD_AT_H
#define CT_HELD_AT_H

#include "sites/site_groups.h"

// Both are to be freed by the caller. The groups' labels suit what is held. Who resumed memory that
// has slept is not known of a state that a checkpoint restored.
void ct_held_at_read(struct ct_live_totals *live, struct ct_site_groups *groups,
                     const struct ct_replay *state, struct ct_call_sites *sites, int device,
                     enum ct_holding_rows rows);

#endif

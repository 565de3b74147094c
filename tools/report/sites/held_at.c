// SPDX-License-Identifier: Apache-2.0
#include "sites/held_at.h"

void ct_held_at_read(struct ct_live_totals *live, struct ct_site_groups *groups,
                     const struct ct_replay *state, struct ct_call_sites *sites, int device,
                     enum ct_holding_rows rows) {
    ct_live_at_read(live, state, device, rows);
    for (size_t i = 0; i < live->holding_count; i++)
        live->holdings[i].resumed_bytes = 0;
    ct_site_groups_refine(sites, live->holdings, live->holding_count);
    ct_site_groups_build(groups, sites, live->holdings, live->holding_count);
}

// SPDX-License-Identifier: Apache-2.0
// What call sites and components hold of a device while a trace is replayed: the present totals,
// kept with each change, so that reading them takes no look at all that is live.
#ifndef CT_HELD_NOW_H
#define CT_HELD_NOW_H

#include "analyze/account.h"
#include "replay/replay.h"
#include "sites/site_groups.h"

// The present total of a component in objects of one kind.
struct ct_held_component {
    uint64_t bytes, count;
    uint32_t stack; // one of its stacks
};

struct ct_held_now {
    const struct ct_replay *replay; // of the pass; it must be there as long as anything is read
    int device;
    struct ct_call_sites *sites;
    struct ct_phases *phases;
    // All sites so far; their bytes and counts are the present ones, `stack` is that of the largest
    // object. Not sorted: a position stays.
    struct ct_site_groups groups;
    uint32_t *position[CT_HOLDING_STACKS]; // by stack: its group + 1; 0: not known yet
    size_t stacks;
    uint64_t bytes[CT_HOLDING_STACKS]; // present totals
    struct ct_held_component component[CT_HOLDING_STACKS][CT_COMPONENTS];
};

void ct_held_now_init(struct ct_held_now *h, struct ct_call_sites *sites, struct ct_phases *phases,
                      int device, const struct ct_replay *r);
// Has an analysis of the pass keep the totals.
void ct_held_now_follow(struct ct_held_now *h, struct ct_listener *a);
// The position of the group of a stack and kind.
size_t ct_held_now_position(struct ct_held_now *h, enum ct_holding_kind kind, uint32_t stack);
// How segments are divided now: into blocks and what is idle, if these add up.
enum ct_holding_rows ct_held_now_rows(const struct ct_held_now *h);
// The present account of the device, divided as in `split`; NULL: as the present state says.
// `blocks` (CT_COMPONENTS of them) gets the part of each component that PyTorch's blocks hold.
void ct_held_now_account(struct ct_held_now *h, struct ct_account *a, uint64_t *blocks,
                         const struct ct_breakdown *split);
void ct_held_now_free(struct ct_held_now *h);

#endif

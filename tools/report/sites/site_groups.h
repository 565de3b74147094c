// SPDX-License-Identifier: Apache-2.0
// Holdings summed by kind and call site: the label of the first frame of a stack that is not
// hidden.
#ifndef CT_SITE_GROUPS_H
#define CT_SITE_GROUPS_H

#include "analyze/live_at.h"
#include "symbols/call_sites.h"

enum { CT_SITE_GROWTH_PARTS = 8 };

// How a call site came to hold its memory at a moment; site_growth.h sets it.
struct ct_site_growth {
    uint64_t bytes, count; // held at the moment
    // In the range up to the moment. Given back: also what was allocated before the range.
    uint64_t taken_bytes, taken_count, given_back_bytes, given_back_count;
    uint64_t oldest_ns; // when the oldest of what is held was allocated, 0: not known
    // By how much the least that it held in a part of the stretch rose from the first part to the
    // last, and from how many parts to the next it rose. 0 where the stretch is too short.
    int64_t bytes_of_growth;
    unsigned rises; // 0 to CT_SITE_GROWTH_PARTS - 1
};

struct ct_site_group {
    enum ct_holding_kind kind;
    char *label;
    uint32_t stack; // the first stack that was added
    uint64_t stacks, bytes, count;
    uint64_t resumed_bytes; // as in struct ct_holding
    uint32_t resumed_by;
    uint64_t more[6]; // sums of the caller's own
    struct ct_site_growth growth;
};

struct ct_site_groups {
    struct ct_site_group *list;
    size_t count, capacity;
    struct ct_id_set set;
};

// Where one label stands for more than a fifth of the holdings and its callers differ (a program's
// own allocation function), lets the labels of those stacks show as many callers as it takes to
// tell them apart.
void ct_site_groups_refine(struct ct_call_sites *s, const struct ct_holding *holdings, size_t n);
// How many frames the label of a stack shows, 1 if nothing was set; and to set it.
unsigned ct_site_groups_depth(const struct ct_call_sites *s, uint32_t stack);
void ct_site_groups_set_depth(struct ct_call_sites *s, uint32_t stack, unsigned depth);
// Returns the group of a stack and kind, a new one if need be; valid until the next call.
struct ct_site_group *ct_site_groups_get(struct ct_site_groups *g, struct ct_call_sites *s,
                                         enum ct_holding_kind kind, uint32_t stack);
// The position of the group of a stack and kind, + 1, also when they are sorted; 0: there is none.
size_t ct_site_groups_find(const struct ct_site_groups *g, struct ct_call_sites *s,
                           enum ct_holding_kind kind, uint32_t stack);
// Adds what a holding has resumed to its group.
void ct_site_groups_add_resumed(struct ct_site_group *g, const struct ct_holding *h);
// The label of a holding: that of its call site, or what it is if it has none.
void ct_site_groups_label(struct ct_call_sites *s, enum ct_holding_kind kind, uint32_t stack,
                          char *to, size_t size);
// Makes sorted groups of holdings. Where the holdings are sorted too, a group's `stack` is the one
// that holds the most.
void ct_site_groups_build(struct ct_site_groups *g, struct ct_call_sites *s,
                          const struct ct_holding *holdings, size_t n);
// Sorts the groups, the most bytes first.
void ct_site_groups_sort(struct ct_site_groups *g);
void ct_site_groups_free(struct ct_site_groups *g);

#endif

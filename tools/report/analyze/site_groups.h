// SPDX-License-Identifier: Apache-2.0
// Holdings put together by call site: the label of the first interesting frame of their stacks.
#ifndef CT_GROUPS_H
#define CT_GROUPS_H

#include "analyze/live_at.h"
#include "symbols/call_sites.h"

struct ct_site_group {
    char *label;
    uint32_t stack; // the stack that holds the most
    uint64_t stacks, bytes, count;
    uint64_t more[4]; // free for the caller: summed like bytes
};

struct ct_site_groups {
    struct ct_site_group *list; // as added; sort by need
    size_t count, capacity;
    struct ct_id_set set;
};

// Where one frame stands for much of what is held and its callers differ (a program's own allocation
// function), lets the labels of those stacks show as many callers as it takes to tell them apart.
void ct_site_groups_refine(struct ct_call_sites *s, const struct ct_holding *holdings, size_t n);
// The group of a stack; valid until the next call.
struct ct_site_group *ct_site_groups_get(struct ct_site_groups *g, struct ct_call_sites *s, uint32_t stack);
void ct_site_groups_build(struct ct_site_groups *g, struct ct_call_sites *s, const struct ct_holding *holdings,
                  size_t n);
void ct_site_groups_sort(struct ct_site_groups *g); // the most bytes first
void ct_site_groups_free(struct ct_site_groups *g);

#endif

// SPDX-License-Identifier: Apache-2.0
// The call sites of two traces, or of two moments of one, side by side: a row for each that either
// has. Each call site of a side is in exactly one row, so that the rows of a side add up to what it
// holds.
#ifndef CT_SITE_MATCH_H
#define CT_SITE_MATCH_H

#include "compare/site_identity.h"

struct ct_site_row {
    enum ct_holding_kind kind;
    // Of each side: the call site (position of its group), SIZE_MAX if it has none, and how many it
    // has here. There are several where a function was changed and has more than one: which of them
    // is which cannot be told.
    size_t site[CT_SIDES], sites[CT_SIDES];
    uint64_t bytes[CT_SIDES], count[CT_SIDES];
    uint64_t line[CT_SIDES];  // of the innermost frame, 0: none
    uint64_t lines[CT_SIDES]; // a number for those of all its frames
    int library_differs;      // the function is in another library
    uint64_t functions;       // the key without libraries; 0: none is in it
};

struct ct_site_match {
    struct ct_site_row *list; // the largest change first
    size_t count;
    size_t *row[CT_SIDES]; // by group: its row
};

// Groups are sorted: the largest one first.
void ct_site_match_build(struct ct_site_match *m, struct ct_site_identity *d,
                         const struct ct_site_groups *groups[CT_SIDES]);
// Whether call sites are shown as one that may be several, or are at different places.
int ct_site_row_is_merged(const struct ct_site_row *r);
int ct_site_row_has_moved(const struct ct_site_row *r);
void ct_site_match_free(struct ct_site_match *m);

#endif

// SPDX-License-Identifier: Apache-2.0
// A table of call sites with what each holds at a moment and how it came to that. On a terminal the
// least important columns are left out until a call site has room.
#ifndef CT_SITE_TABLE_H
#define CT_SITE_TABLE_H

#include "print/view.h"
#include "sites/site_growth.h"

struct ct_site_table {
    const struct ct_site_groups *groups; // sorted, with growth
    const struct ct_growth_stretch *stretch;
    const char *held; // heading of what is held: "at peak"
    uint64_t whole;   // bytes that are held
    int at_end;       // a column of what is held at the end (site_totals.h), too
    unsigned rows;
};

// Prints the table, and a line that says what its growth means.
void ct_site_table_print(struct ct_view *v, const struct ct_site_table *t);

#endif

// SPDX-License-Identifier: Apache-2.0
// The list of processes as a table: which columns fit, in which order the rows are.
#ifndef CT_WATCH_ROWS_H
#define CT_WATCH_ROWS_H

#include <stdio.h>

#include "watch/list.h"

enum ct_row_column {
    CT_ROW_PID,
    CT_ROW_PROGRAM,
    CT_ROW_STATE,
    CT_ROW_ALLOCATED,
    CT_ROW_GROWTH,
    CT_ROW_FULL,
    CT_ROW_OOM,
    CT_ROW_FREE,
    CT_ROW_LOST,
    CT_ROW_PHASE,
    CT_ROW_COLUMNS,
};

struct ct_rows {
    size_t order[CT_WATCH_MOST]; // positions in the list
    size_t count;
    enum ct_row_column sorted_by;
};

void ct_rows_sort(struct ct_rows *r, const struct ct_watch_list *l);
// The last column that fits, + 1.
enum ct_row_column ct_rows_fit(size_t width);
void ct_rows_print_head(FILE *out, const struct ct_rows *r, size_t width);
void ct_rows_print(FILE *out, const struct ct_watch_process *p, size_t width);

#endif

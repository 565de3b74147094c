// SPDX-License-Identifier: Apache-2.0
// The list of processes as a table.
#include "watch/watch.h"

#include <inttypes.h>
#include <string.h>

// In the order in which they are left out, the last one first.
static const struct {
    const char *head;
    int width, is_left;
} columns[CT_ROW_COLUMNS] = {{"PID", 7, 0},        {"PROGRAM", 14, 1}, {"STATE", 9, 1},
                             {"ALLOCATED", 11, 0}, {"GROWTH", 17, 0},  {"FULL IN", 10, 0},
                             {"OOM", 4, 0},        {"FREE", 11, 0},    {"LOST EVENTS", 12, 0},
                             {"PHASE", 30, 1}};

enum ct_row_column ct_rows_fit(size_t width) {
    size_t at = 1;
    int c = 0;
    for (; c < CT_ROW_COLUMNS && (!c || at + 1 + (size_t)columns[c].width <= width); c++)
        at += 1 + (size_t)columns[c].width;
    return (enum ct_row_column)c;
}

// ---- values -------------------------------------------------------------------------------------

static const struct ct_journal_device *main_now(const struct ct_watch_process *p) {
    const struct ct_journal_device *best = &p->head.device[0];
    for (int i = 1; i < CT_JOURNAL_DEVICES; i++)
        if (p->head.device[i].tracked > best->tracked)
            best = &p->head.device[i];
    return best;
}

// What is free on the device of which it holds the most: as its details have it, else at the last
// reading. Returns whether it is known.
static int find_free(const struct ct_watch_process *p, uint64_t *bytes) {
    const struct ct_watch_device *d = ct_watch_main_device(p);
    const struct ct_journal_device *now = main_now(p);
    const int is_read = d && d->is_read;
    *bytes = is_read ? d->part[CT_WATCH_FREE] : now->free_bytes;
    return ct_watch_is_alive(p) && (is_read || now->total);
}

static uint64_t count_ooms(const struct ct_watch_process *p) {
    uint64_t sum = 0;
    for (int i = 0; i < CT_JOURNAL_DEVICES; i++)
        sum += p->head.device[i].ooms;
    return p->has_details ? p->details.failed : sum;
}

// As it is shown: what is steady is 0, what is not known comes after what falls.
static double growth_of(const struct ct_trend *t) {
    if (t->kind == CT_TREND_RISING || t->kind == CT_TREND_FALLING)
        return t->slope;
    return t->kind == CT_TREND_STEADY ? 0 : -1e299;
}

struct cell {
    struct ct_human_text text;
    double rank; // by which a column is sorted, the largest first
};

static struct cell read_cell(const struct ct_watch_process *p, enum ct_row_column c) {
    const struct cell none = {{"-"}, -1e300};
    const struct ct_watch_device *d = ct_watch_is_alive(p) ? ct_watch_main_device(p) : NULL;
    uint64_t n;
    switch (c) {
    case CT_ROW_PID:
        return (struct cell){ct_human_format("%u", p->pid), -(double)p->pid};
    case CT_ROW_PROGRAM:
        return (struct cell){ct_human_format("%.39s", p->program), 0};
    case CT_ROW_STATE:
        return (struct cell){ct_human_format("%s", ct_watch_state_name(p->state)),
                             -(double)p->state};
    case CT_ROW_ALLOCATED:
        n = ct_watch_tracked(p);
        return ct_watch_is_alive(p) ? (struct cell){ct_human_bytes(n, CT_UNITS_IEC), (double)n}
                                    : none;
    case CT_ROW_GROWTH:
        return d ? (struct cell){ct_watch_text_growth(&d->own), growth_of(&d->own)} : none;
    case CT_ROW_FULL:
        return d && d->has_full ? (struct cell){ct_human_seconds(d->full.ns), -(double)d->full.ns}
                                : none;
    case CT_ROW_OOM:
        n = count_ooms(p);
        return (struct cell){ct_human_format("%" PRIu64, n), (double)n};
    case CT_ROW_FREE:
        return find_free(p, &n) ? (struct cell){ct_human_bytes(n, CT_UNITS_IEC), -(double)n} : none;
    case CT_ROW_LOST:
        n = p->has_details ? p->details.lost : p->head.lost;
        return (struct cell){ct_human_count(n), (double)n};
    default:
        return (struct cell){ct_human_format("%.39s", p->details.phase ? p->details.phase : "-"),
                             0};
    }
}

// ---- the order ----------------------------------------------------------------------------------

static int comes_first(const struct ct_watch_process *a, double x, const struct ct_watch_process *b,
                       double y, enum ct_row_column c) {
    const char *p = a->details.phase ? a->details.phase : "",
               *q = b->details.phase ? b->details.phase : "";
    if (x > y || x < y)
        return x > y;
    const int text = c == CT_ROW_PROGRAM ? strcmp(a->program, b->program)
                     : c == CT_ROW_PHASE ? strcmp(p, q)
                                         : 0;
    return text ? text < 0 : a->pid < b->pid;
}

void ct_rows_sort(struct ct_rows *r, const struct ct_watch_list *l) {
    double rank[CT_WATCH_MOST];
    r->count = 0;
    for (size_t i = 0; i < l->count; i++) { // there are few: insertion
        const struct ct_watch_process *p = &l->entries[i].process;
        size_t at = r->count++;
        rank[i] = read_cell(p, r->sorted_by).rank;
        for (; at; at--) {
            const size_t before = r->order[at - 1];
            if (!comes_first(p, rank[i], &l->entries[before].process, rank[before], r->sorted_by))
                break;
            r->order[at] = before;
        }
        r->order[at] = i;
    }
}

// ---- printing -----------------------------------------------------------------------------------

static void print_cell(FILE *out, enum ct_row_column c, const char *text) {
    const int width = columns[c].width;
    fprintf(out, columns[c].is_left ? " %-*.*s" : " %*.*s", width, width, text);
}

void ct_rows_print_head(FILE *out, const struct ct_rows *r, size_t width) {
    const enum ct_row_column end = ct_rows_fit(width);
    putc(' ', out);
    for (enum ct_row_column c = 0; c < end; c++) {
        char head[32];
        (void)snprintf(head, sizeof head, "%s%s", columns[c].head, c == r->sorted_by ? "*" : "");
        print_cell(out, c, head);
    }
}

void ct_rows_print(FILE *out, const struct ct_watch_process *p, size_t width) {
    const enum ct_row_column end = ct_rows_fit(width);
    for (enum ct_row_column c = 0; c < end; c++)
        print_cell(out, c, read_cell(p, c).text.text);
}

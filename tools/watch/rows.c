// SPDX-License-Identifier: Apache-2.0
#include "watch/rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "watch/text.h"

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

static const struct ct_watch_now *main_now(const struct ct_watch_process *p) {
    const struct ct_watch_now *best = &p->now[0];
    for (size_t i = 1; i < sizeof p->now / sizeof *p->now; i++)
        if (p->now[i].tracked > best->tracked)
            best = &p->now[i];
    return best;
}

// What is free on the device of which it holds the most: as its details have it, else at the last
// reading. Returns whether it is known.
static int find_free(const struct ct_watch_process *p, uint64_t *bytes) {
    const struct ct_watch_device *d = ct_watch_main_device(p);
    const struct ct_watch_now *now = main_now(p);
    const int is_read = d && d->is_read;
    *bytes = is_read ? d->part[CT_WATCH_FREE] : now->free;
    return ct_watch_is_alive(p) && (is_read || now->total);
}

static uint64_t count_ooms(const struct ct_watch_process *p) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof p->now / sizeof *p->now; i++)
        sum += p->now[i].ooms;
    return p->has_details ? p->details.failed : sum;
}

static struct ct_human_text text_of(const struct ct_watch_process *p, enum ct_row_column c) {
    const struct ct_watch_device *d = ct_watch_main_device(p);
    uint64_t bytes;
    switch (c) {
    case CT_ROW_PID:
        return ct_human_format("%u", p->pid);
    case CT_ROW_PROGRAM:
        return ct_human_format("%.39s", p->program);
    case CT_ROW_STATE:
        return ct_human_format("%s", ct_watch_state_name(p->state));
    case CT_ROW_ALLOCATED:
        return ct_watch_is_alive(p) ? ct_human_bytes(ct_watch_tracked(p), CT_UNITS_IEC)
                                    : ct_human_format("-");
    case CT_ROW_GROWTH:
        return d && ct_watch_is_alive(p) ? ct_watch_text_growth(&d->own) : ct_human_format("-");
    case CT_ROW_FULL:
        return ct_watch_is_alive(p) ? ct_watch_text_full(d) : ct_human_format("-");
    case CT_ROW_OOM:
        return ct_human_format("%" PRIu64, count_ooms(p));
    case CT_ROW_FREE:
        return find_free(p, &bytes) ? ct_human_bytes(bytes, CT_UNITS_IEC) : ct_human_format("-");
    case CT_ROW_LOST:
        return ct_human_count(p->has_details ? p->details.lost : p->lost);
    default:
        return ct_human_format("%.39s", p->details.phase ? p->details.phase : "-");
    }
}

// As it is shown: what is steady is 0, what is not known comes after what falls.
static double growth_of(const struct ct_trend *t) {
    if (t->kind == CT_TREND_RISING || t->kind == CT_TREND_FALLING)
        return t->slope;
    return t->kind == CT_TREND_STEADY ? 0 : -1e299;
}

// By what a column is sorted; the largest first.
static double value_of(const struct ct_watch_process *p, enum ct_row_column c) {
    const struct ct_watch_device *d = ct_watch_main_device(p);
    uint64_t bytes;
    switch (c) {
    case CT_ROW_PID:
        return -(double)p->pid;
    case CT_ROW_STATE:
        return -(double)p->state;
    case CT_ROW_ALLOCATED:
        return ct_watch_is_alive(p) ? (double)ct_watch_tracked(p) : -1;
    case CT_ROW_GROWTH:
        return d && ct_watch_is_alive(p) ? growth_of(&d->own) : -1e300;
    case CT_ROW_FULL:
        return d && ct_watch_is_alive(p) && d->has_full ? -(double)d->full.ns : -1e300;
    case CT_ROW_OOM:
        return (double)count_ooms(p);
    case CT_ROW_FREE:
        return find_free(p, &bytes) ? -(double)bytes : -1e300;
    case CT_ROW_LOST:
        return (double)(p->has_details ? p->details.lost : p->lost);
    default:
        return 0;
    }
}

static int comes_first(const struct ct_watch_process *a, const struct ct_watch_process *b,
                       enum ct_row_column c) {
    const double x = value_of(a, c), y = value_of(b, c);
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
    r->count = 0;
    for (size_t i = 0; i < l->count; i++) { // there are few: insertion
        size_t at = r->count++;
        for (; at && comes_first(&l->entries[i].process, &l->entries[r->order[at - 1]].process,
                                 r->sorted_by);
             at--)
            r->order[at] = r->order[at - 1];
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
        print_cell(out, c, text_of(p, c).text);
}

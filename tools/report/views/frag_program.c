// SPDX-License-Identifier: Apache-2.0
#include "views/frag_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "print/document.h"
#include "print/label.h"
#include "print/table.h"

enum { TEXT_POOLS = 20 };

// ---- text ---------------------------------------------------------------------------------------

static const struct ct_table_column columns[] = {
    {.head = "handed out"},         {.head = "parts", .rank = 3},
    {.head = "at most", .rank = 1}, {.head = "of memory", .rank = 4},
    {.head = "unused", .rank = 2},  {.head = "pool", .kind = CT_TABLE_LABEL},
};

static int compare(const void *a, const void *b) {
    const struct ct_program_pool *x = *(const struct ct_program_pool *const *)a,
                                 *y = *(const struct ct_program_pool *const *)b;
    if (x->live_bytes != y->live_bytes)
        return x->live_bytes < y->live_bytes ? 1 : -1;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes < y->peak_bytes ? 1 : -1;
    return (x > y) - (x < y);
}

static void sort_pools(const struct ct_program_pools *p, const struct ct_program_pool **order) {
    for (uint32_t i = 0; i < p->count; i++)
        order[i] = &p->list[i];
    qsort(order, p->count, sizeof *order, compare);
}

enum { LABEL = 200 };

static void write_label(const struct ct_view *v, const struct ct_program_pool *q, char *to) {
    const struct ct_definitions *n = &v->trace->definitions;
    char name[80] = "(no name)", domain[80] = "";
    if (q->is_rest)
        (void)snprintf(name, sizeof name, "(all other pools)");
    else if (q->text)
        ct_utf8_sanitize(name, sizeof name, n->strings[q->text].at, n->strings[q->text].length);
    if (!q->is_rest && q->domain)
        ct_utf8_sanitize(domain, sizeof domain, n->strings[q->domain].at,
                         n->strings[q->domain].length);
    (void)snprintf(to, LABEL, "%s%s%s%s", name, *domain ? " (domain " : "", domain,
                   *domain ? ")" : "");
}

static void add_row(struct ct_view *v, struct ct_table *t, const struct ct_program_pool *q) {
    char label[LABEL];
    write_label(v, q, label);
    ct_table_add_row(t, ct_label_size(v, q->live_bytes).text, ct_human_count(q->live_count).text,
                     ct_label_size(v, q->peak_bytes).text,
                     q->memory_known ? ct_label_size(v, q->memory_bytes).text : "-",
                     q->memory_known ? ct_label_size(v, q->memory_bytes - q->live_bytes).text : "-",
                     label, NULL);
}

static void print_notes(struct ct_view *v, const struct ct_program_pools *p) {
    fprintf(
        v->out,
        "  %shanded out, and in how many parts: as the program says (cutrace.h, NVTX), no memory "
        "beyond that above; unused: of the heap, else of the allocations that the parts lie "
        "in%s\n",
        v->terminal->dim, v->terminal->reset);
    if (!p->complete)
        fputs("  not all that the program said of its pools is in the trace: the figures are of a "
              "part of it, and what is unused is not known\n",
              v->out);
    if (p->unknown_count || p->replaced_count)
        fprintf(v->out,
                p->complete ? "  %s a pool took back what it had not handed out, %s it handed out "
                              "what it had not taken back\n"
                            : "  %s a pool took back what this part does not show as handed out, "
                              "%s it handed out what this part does not show as taken back\n",
                ct_human_counted(p->unknown_count, "time").text,
                ct_human_counted(p->replaced_count, "time").text);
}

void ct_frag_program_print(struct ct_view *v, const struct ct_program_pools *p) {
    const struct ct_program_pool *order[CT_PROGRAM_POOLS];
    const uint32_t most = v->options->top ? v->options->top : TEXT_POOLS;
    struct ct_table table;
    if (!p->count)
        return;
    sort_pools(p, order);
    ct_table_init(&table, columns, sizeof columns / sizeof *columns, 2);
    for (uint32_t i = 0; i < p->count && i < most; i++)
        add_row(v, &table, order[i]);
    ct_table_print(v, &table);
    if (p->count > most)
        fprintf(v->out, "  and %" PRIu32 " more pools\n", p->count - most);
    print_notes(v, p);
}

void ct_frag_program_print_sum(struct ct_view *v, const struct ct_program_pools *p) {
    const struct ct_program_pool *order[CT_PROGRAM_POOLS];
    uint64_t sum = 0;
    uint32_t in_use = 0;
    char label[LABEL];
    for (uint32_t i = 0; i < p->count; i++) {
        sum += p->list[i].live_bytes;
        in_use += p->list[i].live_bytes != 0;
    }
    if (!sum)
        return;
    sort_pools(p, order);
    write_label(v, order[0], label);
    fprintf(v->out, "%12s %8s  " CT_WRAP_HANG "in the program's pools: %s %s",
            ct_label_size(v, sum).text, "", label, ct_label_size(v, order[0]->live_bytes).text);
    if (order[0]->memory_known)
        fprintf(v->out, " of %s", ct_label_size(v, order[0]->memory_bytes).text);
    if (in_use > 1)
        fprintf(v->out, ", %" PRIu32 " more", in_use - 1);
    fprintf(v->out, " (see frag)%s\n", p->complete ? "" : "; not all is in the trace");
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_pool(struct ct_view *v, struct ct_json *j, const struct ct_program_pool *q) {
    const struct ct_definitions *n = &v->trace->definitions;
    ct_json_open(j, NULL, '{');
    ct_document_add_string(j, "name", &n->strings[q->is_rest ? 0 : q->text]);
    ct_document_add_string(j, "domain", &n->strings[q->is_rest ? 0 : q->domain]);
    if (q->has_handle && !q->is_rest)
        ct_json_hex(j, "handle", q->handle);
    else
        ct_json_null(j, "handle");
    ct_json_bool(j, "is_rest", q->is_rest);
    ct_json_number(j, "live_bytes", q->live_bytes);
    ct_json_number(j, "live_count", q->live_count);
    ct_json_number(j, "peak_bytes", q->peak_bytes);
    ct_json_number_or_null(j, "peak_t_ns", q->peak_bytes != 0, q->peak_t_ns);
    ct_json_number(j, "handed_out_count", q->handed_out_count);
    ct_json_number(j, "taken_back_count", q->taken_back_count);
    ct_json_number_or_null(j, "memory_bytes", q->memory_known, q->memory_bytes);
    ct_json_number_or_null(j, "unused_bytes", q->memory_known,
                           q->memory_known ? q->memory_bytes - q->live_bytes : 0);
    ct_json_close(j, '}');
}

void ct_frag_program_add_json(struct ct_view *v, struct ct_json *j,
                              const struct ct_program_pools *p) {
    if (!ct_json_open_or_null(j, "program_pools", p->count != 0, '{'))
        return;
    ct_json_bool(j, "complete", p->complete);
    ct_json_number(j, "unknown_count", p->unknown_count);
    ct_json_number(j, "replaced_count", p->replaced_count);
    ct_json_number(j, "left_out_count", p->left_out_count);
    ct_json_open(j, "pools", '[');
    for (uint32_t i = 0; i < p->count; i++)
        add_pool(v, j, &p->list[i]);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

// SPDX-License-Identifier: Apache-2.0
// The rows add up: tracked, in flight, untracked, others, what is of one of these two, and free to
// the capacity, and the indented ones to what is tracked.
#include "print/memory_table.h"

#include <string.h>

#include "base/utf8.h"
#include "print/label.h"
#include "print/untracked.h"
#include "read/device_kind.h"

enum { ROWS = CT_MEMORY_TABLE_COMPONENTS + 4, NOTE = 200 };

// Rows that add up to `whole`.
struct rows {
    uint64_t bytes[ROWS];
    char note[ROWS][NOTE];
    size_t count, residual; // the row that takes the difference of rounding
};

static char *add_row(struct rows *r, uint64_t bytes, const char *note) {
    char *to = r->note[r->count];
    (void)snprintf(to, NOTE, "%s", note);
    r->bytes[r->count++] = bytes;
    return to;
}

// ---- the device ---------------------------------------------------------------------------------

// "budget 24 GB = 22.35 GiB (did you mean 24GiB?), device ".
static void print_budget(struct ct_view *v) {
    const struct ct_arguments *o = v->options;
    fprintf(v->out, "budget %s", ct_label_budget(v).text);
    if (o->capacity_decimal) // (the text ends with "B")
        fprintf(v->out, " (did you mean %.*siB?)", (int)strlen(o->capacity_text) - 1,
                o->capacity_text);
    fputs(", device ", v->out);
}

// What the driver keeps for itself is in NVML's figure of every card: no 128th of it.
static int disagrees(const struct ct_capacity *c, uint64_t bytes) {
    const uint64_t apart = bytes > c->bytes ? bytes - c->bytes : c->bytes - bytes;
    return bytes && apart > c->bytes / 128;
}

static void print_disagreement(struct ct_view *v, const struct ct_capacity *c) {
    const struct {
        const char *source;
        uint64_t bytes;
    } others[] = {{"cuDeviceTotalMem", c->total}, {"cuMemGetInfo", c->meminfo}, {"NVML", c->nvml}};
    const char *before = " (";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (disagrees(c, others[i].bytes)) {
            fprintf(v->out, "%s%s: %s", before, others[i].source,
                    ct_label_size(v, others[i].bytes).text);
            before = ", ";
        }
    if (*before == ',')
        putc(')', v->out);
}

static void print_product(struct ct_view *v, int device) {
    const struct ct_string *name = ct_capacity_device_name(v->trace, device);
    char kind[80];
    const struct ct_device_kind is = ct_device_kind_read(&v->trace->definitions, device);
    ct_device_kind_describe(&is, kind, sizeof kind);
    if (!name->length && !*kind)
        return;
    fputs(" (", v->out);
    ct_utf8_print_sanitized(v->out, name->at, name->length < 60 ? name->length : 60);
    fprintf(v->out, "%s%s", name->length && *kind ? ", " : "", kind);
    putc(')', v->out);
}

static void print_device(struct ct_view *v, const struct ct_memory_table *t) {
    const struct ct_capacity *c = t->capacity;
    fprintf(v->out, "%s%s", v->terminal->bold, ct_label_device(t->device).text);
    print_product(v, t->device);
    fprintf(v->out, " %s%s: ", t->when, v->terminal->reset);
    if (v->options->capacity)
        print_budget(v);
    if (c->bytes)
        fprintf(v->out, "%s by %s", ct_label_size(v, c->bytes).text, c->source);
    else
        fputs("capacity -", v->out);
    print_disagreement(v, c);
    putc('\n', v->out);
}

// ---- the rows -----------------------------------------------------------------------------------

static uint64_t sum_holdings(const struct ct_live_totals *t, enum ct_holding_kind kind) {
    uint64_t sum = 0;
    for (size_t i = 0; i < t->holding_count; i++)
        sum += t->holdings[i].kind == kind ? t->holdings[i].bytes : 0;
    return sum;
}

static void add_pool_idle(struct ct_view *v, struct rows *r, uint64_t bytes,
                          const struct ct_torch_pool_totals *pool, const char *whose) {
    if (bytes)
        (void)snprintf(add_row(r, bytes, ""), NOTE, "idle in %s pool: %s of at most %s", whose,
                       ct_human_counted(pool->free.ranges, "block").text,
                       ct_label_size(v, pool->free.largest).text);
}

// ---- components ---------------------------------------------------------------------------------

// The sum of the components that have a name.
static uint64_t sum_named(const struct ct_account *a) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < CT_COMPONENT_OTHER; i++)
        sum += a->row[i].bytes;
    return sum;
}

// Whether the components tell more than the holders: they name most of what is in use.
static int names_components(const struct ct_account *a) {
    const uint64_t named = sum_named(a);
    return named && named >= a->row[CT_COMPONENT_OTHER].bytes && !a->row[CT_ACCOUNT_SEGMENTS].bytes;
}

// The largest component that is not shown yet, or CT_COMPONENTS.
static unsigned find_next(const struct ct_account *a, unsigned shown) {
    unsigned best = CT_COMPONENTS;
    for (unsigned i = 0; i < CT_COMPONENTS; i++)
        if (!(shown >> i & 1) && (best == CT_COMPONENTS || a->row[i].bytes > a->row[best].bytes))
            best = i;
    return best;
}

// A component of no more than this part of what is tracked is not worth a line.
#define SMALL_COMPONENT 1000u

static void add_components(struct rows *r, const struct ct_memory_table *t) {
    const struct ct_account *a = t->account;
    uint64_t rest = sum_named(a) + a->row[CT_COMPONENT_OTHER].bytes;
    unsigned shown = 0;
    while (r->count < t->components) {
        const unsigned next = find_next(a, shown);
        if (next == CT_COMPONENTS || a->row[next].bytes <= a->tracked / SMALL_COMPONENT)
            break;
        add_row(r, a->row[next].bytes, ct_account_row_title((enum ct_account_row_kind)next));
        rest -= a->row[next].bytes;
        shown |= 1u << next;
    }
    r->residual = r->count;
    if (rest)
        add_row(r, rest,
                shown >> CT_COMPONENT_OTHER & 1 ? "smaller parts"
                                                : "unrecognized, and smaller parts");
}

// Splits tracked memory by what it is for.
static void add_purposes(struct ct_view *v, struct rows *r, const struct ct_memory_table *t) {
    const struct ct_account *a = t->account;
    add_components(r, t);
    add_pool_idle(v, r, a->row[CT_ACCOUNT_POOL_IDLE].bytes, t->pool, "PyTorch's");
    if (a->row[CT_ACCOUNT_MEMPOOL_IDLE].bytes)
        add_row(r, a->row[CT_ACCOUNT_MEMPOOL_IDLE].bytes, "idle in CUDA's memory pools");
}

// ---- holders ------------------------------------------------------------------------------------

// Splits tracked memory into PyTorch's blocks, idle memory and other allocations. A program without
// PyTorch and idle memory pools has no such rows.
static void add_holders(struct ct_view *v, struct rows *r, const struct ct_memory_table *t) {
    const struct ct_breakdown *m = &t->live->split;
    const uint64_t blocks = sum_holdings(t->live, CT_HOLDING_BLOCK),
                   idle = sum_holdings(t->live, CT_HOLDING_IDLE),
                   segments = sum_holdings(t->live, CT_HOLDING_SEGMENT),
                   other = sum_holdings(t->live, CT_HOLDING_ALLOCATION);
    if (t->pool->known && t->live->rows == CT_ROWS_BY_BLOCK) {
        add_row(r, blocks, "in PyTorch's blocks");
        add_pool_idle(v, r, idle, t->pool, "its");
    } else if (segments) {
        add_row(r, segments, "in PyTorch's segments");
    }
    if (!r->count && !m->pool_idle)
        return;
    r->residual = r->count;
    if (other > m->managed) // (managed memory is no part of what is tracked)
        add_row(r, other - m->managed, r->count ? "outside PyTorch's pool" : "in allocations");
    if (m->pool_idle)
        add_row(r, m->pool_idle, "idle in CUDA's memory pools");
}

static void add_free(const struct ct_view *v, struct rows *r, const struct ct_breakdown *m) {
    const char *how = m->moved_on ? ", inferred from the last reading" : "";
    char *note = add_row(r, m->free, "free");
    (void)snprintf(note, NOTE, "free%s%s", v->options->capacity ? " of the budget" : "", how);
}

static void add_rows(struct ct_view *v, struct rows *r, const struct ct_memory_table *t) {
    const struct ct_breakdown *m = &t->live->split;
    char *note = add_row(r, m->tracked, "tracked: this process's allocations");
    if (m->pool_idle)
        (void)snprintf(note, NOTE, "tracked: this process's allocations and memory pools");
    if (!m->used_known)
        return;
    if (m->in_flight)
        add_row(r, m->in_flight, "in flight: allocations or frees that had not returned yet");
    r->residual = r->count;
    add_row(r, ct_breakdown_measured_whole(m), ct_untracked_title(m));
    if (m->split_known && m->unattributed)
        add_row(r, m->unattributed, "this process's or others' (NVML was read at another time)");
    if (m->split_known && (m->others || !t->without_parts))
        add_row(r, m->others,
                m->is_host_node ? "other processes, host pages and the driver, by NVML"
                                : "other processes and the driver, by NVML");
    add_free(v, r, m);
}

// Prints the rows from `first` to before `last`.
static void print_rows(struct ct_view *v, const struct rows *r, size_t first, size_t last,
                       uint64_t sum, uint64_t whole, const char *indent) {
    struct ct_human_text size[ROWS], share[ROWS];
    ct_human_bytes_of_parts(size, r->bytes, r->count, sum, v->options->units, r->residual);
    if (sum == whole)
        ct_human_percent_of_parts(share, r->bytes, r->count, whole, r->residual);
    for (size_t i = first; i < last; i++)
        fprintf(v->out, "%s%12s %8s  %s" CT_WRAP_HANG "%s\n",
                v->options->units == CT_UNITS_BYTES ? "  " : "", size[i].text,
                (sum == whole ? share[i] : ct_human_percent(r->bytes[i], whole)).text, indent,
                r->note[i]);
}

// Prints the parts of what is untracked, below its row.
static void print_untracked(struct ct_view *v, const struct ct_breakdown *m, uint64_t whole) {
    const struct ct_untracked_rows parts = ct_untracked_list(m);
    struct rows r = {.count = 0};
    for (size_t i = 0; i < parts.count; i++)
        add_row(&r, parts.bytes[i], parts.note[i]);
    r.residual = r.count ? r.count - 1 : 0;
    print_rows(v, &r, 0, r.count, ct_breakdown_measured_whole(m), whole, "  ");
}

void ct_memory_table_print(struct ct_view *v, const struct ct_memory_table *t) {
    const uint64_t whole = v->options->capacity ? v->options->capacity : t->capacity->bytes;
    struct rows rows = {.count = 0}, holders = {.count = 0};
    print_device(v, t);
    add_rows(v, &rows, t);
    if (names_components(t->account))
        add_purposes(v, &holders, t);
    else
        add_holders(v, &holders, t);
    print_rows(v, &rows, 0, 1, whole, whole, "");
    print_rows(v, &holders, 0, holders.count, t->live->split.tracked, whole, "  ");
    const size_t untracked = rows.residual + 1;
    print_rows(v, &rows, 1, untracked < rows.count ? untracked : rows.count, whole, whole, "");
    if (!t->without_parts)
        print_untracked(v, &t->live->split, whole);
    if (untracked < rows.count)
        print_rows(v, &rows, untracked, rows.count, whole, whole, "");
    if (!t->live->split.used_known)
        fprintf(v->out, "%12s %8s  free: the device's memory was not read by then\n", "-", "-");
    if (t->live->split.managed)
        fprintf(v->out, "%12s %8s  managed memory: it migrates, and is in no row above\n",
                ct_label_size(v, t->live->split.managed).text, "");
}

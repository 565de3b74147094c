// SPDX-License-Identifier: Apache-2.0
// The text of a diff: what was compared, what else differs, then tables whose rows add up.
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "print/label.h"
#include "print/table.h"
#include "print/trace_state.h"
#include "views/diff_shown.h"

enum { USUAL_ROWS = 20, MOST_FILES = 3, MOST_FACTS = 20, VALUE = 120, LABEL = 1700 };

// "+2.00 GiB", "-1 block", "0".
static struct ct_human_text format_change(const struct ct_view *v, const uint64_t value[CT_SIDES],
                                          int is_count) {
    const int is_less = value[1] < value[0];
    const uint64_t by = is_less ? value[0] - value[1] : value[1] - value[0];
    if (!by)
        return ct_human_format("0");
    return ct_human_format("%c%.38s", is_less ? '-' : '+',
                           is_count ? ct_human_count(by).text : ct_label_size(v, by).text);
}

// ---- what is compared ---------------------------------------------------------------------------

static void print_fact(struct ct_view *v, const char *key) {
    const struct ct_string *s = ct_definitions_info(&v->trace->definitions, key);
    if (s)
        ct_utf8_print_sanitized(v->out, s->at, s->length < VALUE ? s->length : VALUE);
    else
        putc('-', v->out);
}

static void print_side(const struct ct_diff *d, int side) {
    static const char *const words[] = {"at the OOM,", "at the peak,", "at the end,", "at"};
    struct ct_view *v = d->v[side];
    FILE *out = d->v[1]->out;
    v->out = out;
    fprintf(out, "%s%c%s: " CT_WRAP_HANG CT_WRAP_NAME, v->terminal->bold, 'A' + side,
            v->terminal->reset);
    ct_utf8_print_sanitized(out, v->trace->source.name, strlen(v->trace->source.name));
    fputs(CT_WRAP_NAME_END " (", out);
    print_fact(v, "process.exe");
    fputs(" pid ", out);
    print_fact(v, "process.pid");
    putc(')', out);
    if (!d->is_unknown)
        fprintf(out, " %s %s%s", words[d->run[side].moment.kind],
                ct_label_time(v, d->run[side].moment.t_ns).text,
                ct_trace_state_doubt(v, d->run[side].moment.t_ns).text);
    fprintf(out, "%s\n", v->trace->incomplete ? ", INCOMPLETE" : "");
}

static void print_moments(const struct ct_diff *d) {
    struct ct_view *v = d->v[1];
    if (d->is_usual && !d->is_unknown)
        fprintf(v->out,
                "%seach at its OOM of device memory that was not recovered, else at its peak; --at "
                "asks for other moments%s\n",
                v->terminal->dim, v->terminal->reset);
    if (!d->is_usual && d->is_same_trace && !d->is_unknown)
        fprintf(v->out, "%stwo moments of one process%s\n", v->terminal->dim, v->terminal->reset);
}

// ---- what else differs --------------------------------------------------------------------------

static void print_value(FILE *out, const struct ct_string *value) {
    if (!value) {
        fputs("(none)", out);
        return;
    }
    ct_utf8_print_sanitized(out, value->at, value->length < VALUE ? value->length : VALUE);
    if (value->length > VALUE)
        fputs("...", out);
}

static void print_facts(struct ct_view *v, const struct ct_fact_differences *f) {
    for (size_t i = 0; i < f->count && i < MOST_FACTS; i++) {
        const struct ct_fact_difference *x = &f->list[i];
        fprintf(v->out, "differs: %s " CT_WRAP_HANG, ct_fact_kind_name(x->kind));
        ct_utf8_print_sanitized(v->out, x->name.at,
                                x->name.length < VALUE ? x->name.length : VALUE);
        fputs(": ", v->out);
        print_value(v->out, x->value[0]);
        fputs(" in A, ", v->out);
        print_value(v->out, x->value[1]);
        fputs(" in B\n", v->out);
    }
    if (f->count > MOST_FACTS)
        fprintf(v->out, "differs: %zu more; --json has all\n", f->count - MOST_FACTS);
}

static void print_file(const struct ct_diff *d, int side, uint32_t file) {
    const struct ct_string *s = &d->v[side]->trace->definitions.strings[file];
    fputs(CT_WRAP_NAME, d->v[1]->out);
    ct_utf8_print_sanitized(d->v[1]->out, s->at, s->length);
    fputs(CT_WRAP_NAME_END, d->v[1]->out);
}

static void print_files(const struct ct_diff *d) {
    FILE *out = d->v[1]->out;
    const size_t n = d->identity.moved_count;
    for (size_t i = 0; i < n && i < MOST_FILES; i++) {
        fputs("taken for one file: " CT_WRAP_HANG, out);
        print_file(d, 0, d->identity.moved[i].file[0]);
        fputs(" in A, ", out);
        print_file(d, 1, d->identity.moved[i].file[1]);
        fputs(" in B\n", out);
    }
    if (n > MOST_FILES)
        fprintf(out, "taken for one file: %zu more pairs; --json has all\n", n - MOST_FILES);
}

// ---- tables -------------------------------------------------------------------------------------

static void print_figures(struct ct_view *v, const struct ct_diff_device *d) {
    static const struct ct_table_column columns[] = {
        {.head = "change"}, {.head = "A"}, {.head = "B"}, {"figure", 0, CT_TABLE_LABEL}};
    struct ct_table t;
    ct_table_init(&t, columns, sizeof columns / sizeof *columns, 2);
    for (size_t i = 0; i < d->figure_count; i++) {
        const struct ct_diff_figure *f = &d->figure[i];
        ct_table_begin_row(&t);
        ct_table_add_cell(
            &t, f->known[0] && f->known[1] ? format_change(v, f->value, f->is_count).text : "-");
        for (int side = 0; side < CT_SIDES; side++)
            ct_table_add_cell(&t, !f->known[side] ? "-"
                                  : f->is_count   ? ct_human_count(f->value[side]).text
                                                  : ct_label_size(v, f->value[side]).text);
        ct_table_add_cell(&t, f->title);
    }
    ct_table_print(v, &t);
}

// Sizes of the rows of both sides, which add up to what is shown as their sums.
struct sizes {
    uint64_t *bytes[CT_SIDES];
    struct ct_human_text *text[CT_SIDES];
    uint8_t *unknown[CT_SIDES]; // rows that are not known; their bytes are 0
    size_t n;
};

static void begin_sizes(struct sizes *s, size_t n) {
    s->n = n;
    for (int side = 0; side < CT_SIDES; side++) {
        s->bytes[side] = ct_heap_alloc_zeroed(n, sizeof *s->bytes[side]);
        s->text[side] = ct_heap_alloc_zeroed(n, sizeof *s->text[side]);
        s->unknown[side] = ct_heap_alloc_zeroed(n, sizeof *s->unknown[side]);
    }
}

// `residual`: the row of the rest; n: there is none.
static void format_sizes(const struct ct_view *v, struct sizes *s, size_t residual) {
    for (int side = 0; side < CT_SIDES; side++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < s->n; i++)
            sum += s->bytes[side][i];
        ct_human_bytes_of_parts(s->text[side], s->bytes[side], s->n, sum, v->options->units,
                                residual);
    }
}

static void free_sizes(struct sizes *s) {
    for (int side = 0; side < CT_SIDES; side++) {
        free(s->bytes[side]);
        free(s->text[side]);
        free(s->unknown[side]);
    }
}

static void add_size_row(struct ct_table *t, const struct ct_view *v, const struct sizes *s,
                         size_t i) {
    const uint64_t bytes[CT_SIDES] = {s->bytes[0][i], s->bytes[1][i]};
    const int unknown = s->unknown[0][i] || s->unknown[1][i];
    ct_table_begin_row(t);
    ct_table_add_cell(t, unknown ? "-" : format_change(v, bytes, 0).text);
    for (int side = 0; side < CT_SIDES; side++)
        ct_table_add_cell(t, s->unknown[side][i] ? "-" : s->text[side][i].text);
}

// ---- what memory is for -------------------------------------------------------------------------

static void print_account(struct ct_view *v, const struct ct_diff_device *d) {
    static const struct ct_table_column columns[] = {
        {.head = "change"}, {.head = "A"}, {.head = "B"}, {"what it is for", 0, CT_TABLE_LABEL}};
    struct ct_table t;
    struct sizes s;
    unsigned rows[CT_ACCOUNT_ROWS];
    size_t n = 0;
    for (unsigned i = 0; i < CT_ACCOUNT_ROWS; i++)
        if (d->side[0].account.row[i].bytes || d->side[1].account.row[i].bytes)
            rows[n++] = i;
    begin_sizes(&s, n);
    for (size_t i = 0; i < n; i++)
        for (int side = 0; side < CT_SIDES; side++) {
            s.bytes[side][i] = d->side[side].account.row[rows[i]].bytes;
            s.unknown[side][i] = !ct_diff_knows_row(d, side, rows[i]);
        }
    format_sizes(v, &s, n);
    ct_table_init(&t, columns, sizeof columns / sizeof *columns, 2);
    for (size_t i = 0; i < n; i++) {
        add_size_row(&t, v, &s, i);
        ct_table_add_cell(&t, rows[i] == CT_COMPONENT_OTHER
                                  ? "unrecognized"
                                  : ct_account_row_title((enum ct_account_row_kind)rows[i]));
    }
    ct_table_print(v, &t);
    free_sizes(&s);
}

// ---- call sites ---------------------------------------------------------------------------------

static const struct ct_table_column site_columns[] = {
    {"change", 0, CT_TABLE_RIGHT}, {"A", 2, CT_TABLE_RIGHT},         {"B", 1, CT_TABLE_RIGHT},
    {"", 0, CT_TABLE_LEFT},        {"count A", 6, CT_TABLE_RIGHT},   {"count B", 5, CT_TABLE_RIGHT},
    {"A/h", 4, CT_TABLE_RIGHT},    {"B/h", 3, CT_TABLE_RIGHT},       {"age A", 8, CT_TABLE_RIGHT},
    {"age B", 7, CT_TABLE_RIGHT},  {"call site", 0, CT_TABLE_LABEL},
};

static struct ct_human_text format_rate(const struct ct_view *v, int known, uint64_t rate) {
    if (!known)
        return ct_human_format("-");
    return rate ? ct_human_format("+%.38s", ct_label_size(v, rate).text) : ct_human_format("0");
}

static struct ct_human_text format_age(const struct ct_diff_device *d, uint64_t oldest, int side) {
    const uint64_t now = d->side[side].moment.t_ns;
    if (!oldest || oldest > now)
        return ct_human_format("-");
    return now > oldest ? ct_human_seconds(now - oldest) : ct_human_format("0 s");
}

static const char *label_of(const struct ct_diff_device *d, const struct ct_site_row *r, int side) {
    return d->side[side].leaks.groups.list[r->site[side]].label;
}

// The label of B, or of A where B has none; and what differs.
static void format_label(const struct ct_diff_device *d, const struct ct_site_row *r, char *to) {
    const int side = r->sites[1] ? 1 : 0;
    const int n = snprintf(to, LABEL, "%s", label_of(d, r, side));
    const size_t at = n < LABEL ? (size_t)n : LABEL - 1;
    if (ct_site_row_is_merged(r))
        (void)snprintf(to + at, LABEL - at, " [%zu call sites of A, %zu of B: its lines moved]",
                       r->sites[0], r->sites[1]);
    else if (ct_site_row_has_moved(r) && (r->library_differs || strstr(to, " <- ")))
        (void)snprintf(to + at, LABEL - at, " [A: %.300s]", label_of(d, r, 0));
    else if (ct_site_row_has_moved(r))
        (void)snprintf(to + at, LABEL - at, " [A: line %" PRIu64 "]", r->line[0]);
}

static const char *mark_of(const struct ct_site_row *r) {
    if (r->sites[0] && r->sites[1])
        return "";
    return r->sites[1] ? "new" : "gone";
}

static void add_site(struct ct_table *t, struct ct_view *v, const struct ct_diff_device *d,
                     const struct sizes *s, size_t i) {
    const struct ct_site_row *r = &d->sites.list[i];
    char label[LABEL];
    format_label(d, r, label);
    add_size_row(t, v, s, i);
    ct_table_add_cell(t, mark_of(r));
    ct_table_add_cell(t, r->sites[0] ? ct_human_count(r->count[0]).text : "-");
    ct_table_add_cell(t, r->sites[1] ? ct_human_count(r->count[1]).text : "-");
    for (int side = 0; side < CT_SIDES; side++) {
        uint64_t rate;
        const int known = ct_diff_row_rate(d, r, side, &rate);
        ct_table_add_cell(t, format_rate(v, known, rate).text);
    }
    for (int side = 0; side < CT_SIDES; side++)
        ct_table_add_cell(t, format_age(d, ct_diff_row_oldest(d, r, side), side).text);
    ct_table_add_cell(t, label);
}

static void add_rest(struct ct_table *t, const struct ct_view *v, const struct ct_diff_device *d,
                     const struct sizes *s, size_t shown) {
    uint64_t count[CT_SIDES] = {0, 0};
    for (size_t i = shown; i < d->sites.count; i++)
        for (int side = 0; side < CT_SIDES; side++)
            count[side] += d->sites.list[i].count[side];
    add_size_row(t, v, s, shown);
    ct_table_add_cell(t, "");
    ct_table_add_cell(t, ct_human_count(count[0]).text);
    ct_table_add_cell(t, ct_human_count(count[1]).text);
    for (int i = 0; i < 4; i++)
        ct_table_add_cell(t, "");
    char text[80];
    (void)snprintf(text, sizeof text, "%zu more; --top %zu shows all", d->sites.count - shown,
                   d->sites.count);
    ct_table_add_cell(t, text);
}

static void print_sites(struct ct_view *v, const struct ct_diff_device *d) {
    const size_t most = v->options->top ? v->options->top : USUAL_ROWS;
    const size_t shown = d->sites.count < most ? d->sites.count : most;
    const int has_rest = d->sites.count > shown;
    struct ct_table t;
    struct sizes s;
    begin_sizes(&s, shown + (size_t)has_rest);
    for (size_t i = 0; i < d->sites.count; i++)
        for (int side = 0; side < CT_SIDES; side++)
            s.bytes[side][i < shown ? i : shown] += d->sites.list[i].bytes[side];
    format_sizes(v, &s, has_rest ? shown : s.n);
    ct_table_init(&t, site_columns, sizeof site_columns / sizeof *site_columns, 2);
    for (size_t i = 0; i < shown; i++)
        add_site(&t, v, d, &s, i);
    if (has_rest)
        add_rest(&t, v, d, &s, shown);
    ct_table_print(v, &t);
    free_sizes(&s);
}

// ---- phases -------------------------------------------------------------------------------------

static const struct ct_table_column phase_columns[] = {
    {"change", 0, CT_TABLE_RIGHT},
    {"A", 2, CT_TABLE_RIGHT},
    {"B", 1, CT_TABLE_RIGHT},
    {"", 0, CT_TABLE_LEFT},
    {"A/h", 4, CT_TABLE_RIGHT},
    {"B/h", 3, CT_TABLE_RIGHT},
    {"age A", 8, CT_TABLE_RIGHT},
    {"age B", 7, CT_TABLE_RIGHT},
    {"taken A", 6, CT_TABLE_RIGHT},
    {"taken B", 5, CT_TABLE_RIGHT},
    {"peak A", 10, CT_TABLE_RIGHT},
    {"peak B", 9, CT_TABLE_RIGHT},
    {"time A", 12, CT_TABLE_RIGHT},
    {"time B", 11, CT_TABLE_RIGHT},
    {"live, by the phase that allocated it", 0, CT_TABLE_LABEL},
};

static const char *phase_title(const struct ct_phase_row *r, struct ct_phase_title *title) {
    *title = ct_phases_title(&r->at);
    if (r->is_idle)
        return "(idle in PyTorch's pool)";
    return r->at.phase == CT_PHASE_UNKNOWN ? "(no known phase)" : title->text;
}

static void add_phase_cells(struct ct_table *t, const struct ct_view *v,
                            const struct ct_diff_device *d, const struct ct_phase_row *r) {
    static const char *const marks[] = {"", "new", "gone", ""}; // by enum ct_phase_state
    const struct ct_phase_share *s = r->side;
    struct ct_phase_title title;
    ct_table_add_cell(t, marks[ct_phase_match_state(&d->phases, r)]);
    for (int side = 0; side < CT_SIDES; side++) {
        uint64_t rate;
        const int known = ct_diff_phase_rate(&s[side], &rate);
        ct_table_add_cell(t, format_rate(v, known, rate).text);
    }
    for (int side = 0; side < CT_SIDES; side++)
        ct_table_add_cell(t, format_age(d, ct_diff_phase_oldest(&s[side]), side).text);
    for (int side = 0; side < CT_SIDES; side++)
        ct_table_add_cell(t, s[side].stretches ? ct_label_size(v, s[side].taken_bytes).text : "-");
    for (int side = 0; side < CT_SIDES; side++)
        ct_table_add_cell(t, s[side].stretches ? ct_label_size(v, s[side].peak_bytes).text : "-");
    for (int side = 0; side < CT_SIDES; side++)
        ct_table_add_cell(t, !s[side].stretches    ? "-"
                             : s[side].duration_ns ? ct_human_seconds(s[side].duration_ns).text
                                                   : "0 s");
    ct_table_add_cell(t, phase_title(r, &title));
}

static void print_phases(struct ct_view *v, const struct ct_diff_device *d) {
    struct ct_table t;
    struct sizes s;
    begin_sizes(&s, d->phases.count);
    for (size_t i = 0; i < s.n; i++)
        for (int side = 0; side < CT_SIDES; side++) {
            s.bytes[side][i] = d->phases.list[i].side[side].bytes;
            s.unknown[side][i] = !ct_diff_knows_phase(&d->phases.list[i].side[side]);
        }
    format_sizes(v, &s, s.n);
    ct_table_init(&t, phase_columns, sizeof phase_columns / sizeof *phase_columns, 2);
    for (size_t i = 0; i < s.n; i++) {
        add_size_row(&t, v, &s, i);
        add_phase_cells(&t, v, d, &d->phases.list[i]);
    }
    ct_table_print(v, &t);
    free_sizes(&s);
}

// ---- a device -----------------------------------------------------------------------------------

static struct ct_label_device name_device(const struct ct_diff *of, const struct ct_diff_device *d,
                                          int side) {
    return ct_label_device_in_full(of->v[side], d->side[side].device, &of->run[side].scan.end);
}

static void print_device_name(const struct ct_diff *of, const struct ct_diff_device *d) {
    const struct ct_view *v = of->v[1];
    const int has_a = d->side[0].exists, has_b = d->side[1].exists;
    const struct ct_label_device a = name_device(of, d, 0), b = name_device(of, d, 1);
    fputs(v->terminal->bold, v->out);
    if (has_a && has_b && strcmp(a.text, b.text) != 0)
        fprintf(v->out, "%s of A, %s of B", a.text, b.text);
    else
        fputs(has_b ? b.text : a.text, v->out);
    fputs(v->terminal->reset, v->out);
    if (!has_a || !has_b)
        fprintf(v->out, ", of %c only", has_a ? 'A' : 'B');
}

// The moment of a device where it is not the one of the first lines: each device has its own peak.
static void print_device_moment(struct ct_view *v, const struct ct_diff *of,
                                const struct ct_diff_device *d) {
    for (int side = 0; side < CT_SIDES; side++)
        if (d->side[side].exists && d->side[side].moment.t_ns != of->run[side].moment.t_ns)
            fprintf(v->out, ", %c at %s", 'A' + side,
                    ct_label_time(of->v[side], d->side[side].moment.t_ns).text);
}

static void print_device(const struct ct_diff *of, const struct ct_diff_device *d) {
    struct ct_view *v = of->v[1];
    const uint64_t live[CT_SIDES] = {d->side[0].now.bytes, d->side[1].now.bytes};
    print_device_name(of, d);
    print_device_moment(v, of, d);
    if (ct_diff_is_equal(d)) {
        fprintf(v->out, ": no difference: %s in %zu call site%s on both sides\n",
                ct_label_size(v, live[0]).text, d->sites.count, ct_human_plural(d->sites.count));
        return;
    }
    fprintf(v->out, ": %s live in A, %s in B: %s\n", ct_label_size(v, live[0]).text,
            ct_label_size(v, live[1]).text, format_change(v, live, 0).text);
    print_facts(v, &d->facts);
    print_figures(v, d);
    print_account(v, d);
    print_sites(v, d);
    print_phases(v, d);
    fprintf(
        v->out,
        "%s/h: growth in an hour, as leaks judges it; -: not known, or there is none; [A: line]: "
        "its function was changed%s\n",
        v->terminal->dim, v->terminal->reset);
}

// Of both sides: as the first one says it that lacks events.
static void print_unallocated(const struct ct_diff *d) {
    const int side = *ct_trace_state_as_far(d->v[0]->trace, d->run[0].scan.lost) ? 0 : 1;
    ct_trace_state_print_unallocated(d->v[side], d->run[side].scan.lost);
}

void ct_diff_print_text(const struct ct_diff *d) {
    struct ct_view *v = d->v[1];
    print_side(d, 0);
    print_side(d, 1);
    print_moments(d);
    print_facts(v, &d->facts);
    if (d->is_unknown) {
        fputs("Of one of them nothing is known, so there is nothing to compare\n", v->out);
        return;
    }
    print_files(d);
    for (size_t i = 0; i < d->device_count; i++)
        print_device(d, &d->devices[i]);
    if (!d->device_count)
        print_unallocated(d);
}

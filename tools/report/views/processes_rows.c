// SPDX-License-Identifier: Apache-2.0
// Rows that differ by little are collapsed where there are too many for a screen.
#include "views/processes.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "print/print.h"

// ---- names --------------------------------------------------------------------------------------

static uint64_t number_of(const struct ct_gpu *g) {
    return g->index_known ? g->nvml_index : (uint64_t)g->ordinal;
}

struct ct_human_text ct_processes_rows_gpu(const struct ct_processes *all, int gpu) {
    const struct ct_gpu *g = &all->gpus[gpu];
    struct ct_human_text text = {"?"};
    int others = 0;
    if (g->ordinal >= CT_MAX_DEVICES)
        return text;
    for (size_t i = 0; i < all->gpu_count; i++)
        others += &all->gpus[i] != g && all->gpus[i].host == g->host &&
                  number_of(&all->gpus[i]) == number_of(g);
    int n = snprintf(text.text, sizeof text.text, "%" PRIu64, number_of(g));
    if (all->host_count > 1)
        n += snprintf(text.text + n, sizeof text.text - (size_t)n, "@%zu", g->host);
    if (others && g->uuid_known)
        (void)snprintf(text.text + n, sizeof text.text - (size_t)n, "/%04" PRIx64, g->uuid >> 48);
    else if (others)
        (void)snprintf(text.text + n, sizeof text.text - (size_t)n, "/?");
    return text;
}

void ct_processes_rows_print_name(const struct ct_processes_shown *s, size_t i) {
    char name[CT_PROCESS_NAME];
    ct_process_name(&s->all.list[i], name);
    fputs(name, s->out);
}

size_t ct_processes_rows_count_usable(const struct ct_processes_shown *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->all.count; i++)
        n += s->all.list[i].is_usable != 0;
    return n;
}

size_t ct_processes_rows_count_processes(const struct ct_processes_shown *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->all.count; i++)
        n += s->all.list[i].is_usable && s->all.list[i].first_trace == i;
    return n;
}

// ---- rows ---------------------------------------------------------------------------------------

struct row {
    size_t process;
    const struct ct_process_device *device; // NULL: it used none
    struct ct_human_text tracked;
    int is_done; // it was printed or collapsed
};

struct table {
    const struct ct_processes_shown *s;
    struct row *rows;
    size_t count;
    int has_ranks;
    size_t name_width;
    int gpu_width;
};

static int is_counted(const struct ct_process *p) {
    return p->knowledge != CT_PROCESS_UNKNOWN;
}

static uint64_t tracked_of(const struct ct_process *p, const struct ct_process_device *d) {
    return ct_process_holds_nothing(p) ? 0 : d->split.tracked;
}

static void add_row(struct table *t, size_t process, const struct ct_process_device *d) {
    t->rows[t->count++] = (struct row){.process = process, .device = d, .tracked = {"-"}};
}

// Adds the rows of a GPU, with sizes that add up to its sum.
static void add_gpu(struct table *t, int gpu) {
    const struct ct_processes *all = &t->s->all;
    const size_t first = t->count;
    uint64_t sum = 0;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++)
            if (all->list[i].is_usable && all->list[i].devices[k].gpu == gpu)
                add_row(t, i, &all->list[i].devices[k]);
    const size_t n = t->count - first;
    uint64_t *bytes = ct_heap_alloc_zeroed(n, sizeof *bytes);
    struct ct_human_text *text = ct_heap_resize(NULL, n, sizeof *text);
    for (size_t r = 0; r < n; r++)
        if (is_counted(&all->list[t->rows[first + r].process]))
            sum += bytes[r] =
                tracked_of(&all->list[t->rows[first + r].process], t->rows[first + r].device);
    ct_human_bytes_of_parts(text, bytes, n, sum, t->s->options->units, n);
    for (size_t r = 0; r < n; r++)
        if (is_counted(&all->list[t->rows[first + r].process]))
            t->rows[first + r].tracked =
                all->has_moment ? text[r] : ct_human_bytes(bytes[r], t->s->options->units);
    free(bytes);
    free(text);
}

static struct table build(const struct ct_processes_shown *s) {
    const struct ct_processes *all = &s->all;
    struct table t = {.s = s};
    size_t most = all->count, state = strlen("complete");
    for (size_t i = 0; i < all->count; i++)
        most += all->list[i].device_count;
    t.rows = ct_heap_alloc_zeroed(most, sizeof *t.rows);
    for (size_t g = 0; g < all->gpu_count; g++)
        add_gpu(&t, (int)g);
    for (size_t i = 0; i < all->count; i++)
        if (!all->list[i].is_usable || !all->list[i].device_count)
            add_row(&t, i, NULL);
    for (size_t i = 0; i < all->count; i++) {
        t.has_ranks |= all->list[i].rank != NULL;
        if (s->traces[i].state && strlen(s->traces[i].state) > state)
            state = strlen(s->traces[i].state);
    }
    t.gpu_width = 5;
    for (size_t g = 0; g < all->gpu_count; g++)
        if ((int)strlen(ct_processes_rows_gpu(all, (int)g).text) > t.gpu_width)
            t.gpu_width = (int)strlen(ct_processes_rows_gpu(all, (int)g).text);
    // pid, rank, GPU, three sizes, OOMs and state
    const size_t others =
        7 + (t.has_ranks ? 5 : 0) + 2 + (size_t)t.gpu_width + 1 + 13 + 1 + 12 + 12 + 5 + 2 + state;
    t.name_width = s->terminal->width > others + 6 ? s->terminal->width - others : 6;
    if (t.name_width > 24)
        t.name_width = 24;
    return t;
}

// Prints a text in a column of a width, cut where it is too long.
static void print_column(FILE *out, const char *text, size_t width) {
    char safe[200];
    ct_utf8_sanitize(safe, width < sizeof safe ? width + 1 : sizeof safe, text, strlen(text));
    const size_t columns = ct_utf8_columns(safe);
    fprintf(out, "%s%*s", safe, columns < width ? (int)(width - columns) : 0, "");
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void print_pid_and_name(const struct table *t, size_t i) {
    const struct ct_process *p = &t->s->all.list[i];
    FILE *out = t->s->out;
    char pid[24] = "-";
    if (p->pid_known)
        (void)snprintf(pid, sizeof pid, "%" PRIu64, p->pid);
    fprintf(out, "%7s", pid);
    if (t->has_ranks) {
        char rank[5] = "-";
        if (p->rank)
            ct_utf8_sanitize(rank, sizeof rank, p->rank, strlen(p->rank));
        fprintf(out, " %4s", rank);
    }
    fputs("  ", out);
    if (p->is_usable)
        print_column(out, ct_process_program(p), t->name_width);
    else
        print_column(out, base_name(t->s->traces[i].path), 24);
}

// A row of a trace without figures.
static void print_reason(const struct table *t, size_t i) {
    const struct ct_process *p = &t->s->all.list[i];
    const struct ct_process_shown *shown = &t->s->traces[i];
    struct ct_view v = ct_processes_view(t->s);
    const size_t column = 7 + (t->has_ranks ? 5 : 0) + 2 + (p->is_usable ? t->name_width : 24) + 2;
    char text[800], safe[800];
    if (p->same_as != SIZE_MAX)
        (void)snprintf(text, sizeof text, "the same trace as %s; counts once",
                       t->s->traces[p->same_as].path);
    else if (shown->error)
        (void)snprintf(text, sizeof text, "unreadable: %s", shown->error);
    else if (!p->events && shown->missing)
        (void)snprintf(text, sizeof text, "INCOMPLETE: no event, nothing is known of it");
    else
        (void)snprintf(text, sizeof text, "no GPU was used; %s", shown->state);
    ct_utf8_sanitize(safe, sizeof safe, text, strlen(text));
    fputs("  ", v.out);
    ct_print_label(&v, safe, column);
}

static void print_figures(const struct table *t, const struct row *r) {
    const struct ct_processes_shown *s = t->s;
    const struct ct_process *p = &s->all.list[r->process];
    const int known = is_counted(p);
    const int is_empty = ct_process_holds_nothing(p);
    struct ct_human_text untracked = {"-"}, peak = {"-"}, ooms;
    if (is_empty || (known && r->device->untracked_known))
        untracked = ct_human_bytes(is_empty ? 0 : r->device->untracked, s->options->units);
    if (r->device->peak_known)
        peak = ct_human_bytes(r->device->curve.high, s->options->units);
    const int n = snprintf(ooms.text, sizeof ooms.text, "%zu", p->incidents.failed);
    if (p->incidents.retried)
        (void)snprintf(ooms.text + n, sizeof ooms.text - (size_t)n, "+%zu", p->incidents.retried);
    fprintf(s->out, " %*s %12s%s%12s %11s %4s  %s", t->gpu_width,
            ct_processes_rows_gpu(&s->all, r->device->gpu).text, r->tracked.text,
            p->knowledge == CT_PROCESS_LAST_SEEN ? "*" : " ", untracked.text, peak.text, ooms.text,
            s->traces[r->process].state);
}

static void print_row(const struct table *t, struct row *r) {
    print_pid_and_name(t, r->process);
    if (r->device)
        print_figures(t, r);
    else
        print_reason(t, r->process);
    putc('\n', t->s->out);
    r->is_done = 1;
}

// Whether two sizes are the same to 1 %, or to 2 MiB.
static int is_near(uint64_t a, uint64_t b) {
    const uint64_t high = a > b ? a : b, apart = high - (a > b ? b : a);
    return apart <= high / 100 || apart <= UINT64_C(2) << 20;
}

static int is_like(const struct table *t, const struct row *a, const struct row *b) {
    const struct ct_process *p = &t->s->all.list[a->process], *q = &t->s->all.list[b->process];
    if (!a->device || !b->device || p->knowledge != q->knowledge ||
        p->incidents.failed != q->incidents.failed ||
        p->incidents.retried != q->incidents.retried ||
        strcmp(t->s->traces[a->process].state, t->s->traces[b->process].state) != 0)
        return 0;
    return is_near(tracked_of(p, a->device), tracked_of(q, b->device)) &&
           a->device->untracked_known == b->device->untracked_known &&
           is_near(a->device->untracked, b->device->untracked) &&
           a->device->peak_known == b->device->peak_known &&
           is_near(a->device->curve.high, b->device->curve.high);
}

// Marks the later rows that are like a row that was printed. Returns their number.
static size_t collapse(struct table *t, size_t r) {
    size_t n = 0;
    for (size_t k = r + 1; k < t->count; k++)
        if (!t->rows[k].is_done && is_like(t, &t->rows[r], &t->rows[k])) {
            t->rows[k].is_done = 1;
            n++;
        }
    return n;
}

// How many lines of rows leave the screen at 24 lines; 8 of them are always shown.
static size_t limit_of(const struct ct_processes_shown *s) {
    if (s->options->top)
        return s->options->top;
    const size_t limit = s->all.gpu_count < 7 ? 15 - s->all.gpu_count : 8;
    return limit > s->fewer_rows + 8 ? limit - s->fewer_rows : 8;
}

static void print_head(const struct table *t) {
    const struct ct_processes_shown *s = t->s;
    static const char *const moments[] = {" at the moment of the OOM", " at that moment",
                                          ", each at its own OOM or else its own peak"};
    fprintf(s->out, "%s%zu trace%s%s%s\n", s->terminal->bold, s->all.count,
            ct_human_plural(s->all.count),
            ct_processes_rows_count_usable(s) ? moments[s->all.what] : "", s->terminal->reset);
    fprintf(s->out, "%s%7s%s  %-*s %*s %12s %12s %11s %4s  %s%s\n", s->terminal->dim, "pid",
            t->has_ranks ? " rank" : "", (int)t->name_width, "name", t->gpu_width, "GPU", "tracked",
            "untracked", "peak", "OOMs", "trace", s->terminal->reset);
}

void ct_processes_rows_print(const struct ct_processes_shown *s) {
    struct table t = build(s);
    const size_t limit = limit_of(s);
    size_t lines = 0, left = t.count;
    print_head(&t);
    for (size_t r = 0; r < t.count; r++) {
        if (t.rows[r].is_done)
            continue;
        if (lines >= limit && left > 1)
            break;
        print_row(&t, &t.rows[r]);
        const size_t like = t.count > limit ? collapse(&t, r) : 0;
        if (like)
            fprintf(s->out, "%7s  %zu more like this\n", "", like);
        lines += 1 + (like != 0);
        left -= 1 + like;
    }
    if (left)
        fprintf(s->out, "%7s  %zu more (-n %zu shows all)\n", "", left, t.count);
    free(t.rows);
}

// ---- limits -------------------------------------------------------------------------------------

enum { MOST_SENTENCES = 3, MOST_NAMES = 3 };

static int has_sentence(const struct ct_processes_shown *s, size_t i) {
    return s->all.list[i].is_usable && s->traces[i].limits;
}

static int is_same(const struct ct_processes_shown *s, size_t a, size_t b) {
    return has_sentence(s, a) && has_sentence(s, b) &&
           strcmp(s->traces[a].limits, s->traces[b].limits) == 0;
}

// Whether no trace before it has the same sentence.
static int is_first(const struct ct_processes_shown *s, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (is_same(s, i, k))
            return 0;
    return has_sentence(s, i);
}

static size_t count_same(const struct ct_processes_shown *s, size_t i) {
    size_t n = 0;
    for (size_t k = 0; k < s->all.count; k++)
        n += is_same(s, i, k) != 0;
    return n;
}

// Prints "rank 0 (pid 11), rank 1 (pid 12), 2 more: ", of the processes that have the same
// sentence; nothing if these are all.
static void print_names(const struct ct_processes_shown *s, size_t i) {
    const size_t same = count_same(s, i);
    size_t shown = 0;
    if (same == ct_processes_rows_count_usable(s))
        return;
    for (size_t k = 0; k < s->all.count && shown < MOST_NAMES; k++)
        if (is_same(s, i, k)) {
            fputs(shown++ ? ", " : "", s->out);
            ct_processes_rows_print_name(s, k);
        }
    if (same > shown)
        fprintf(s->out, ", %zu more", same - shown);
    fputs(": ", s->out);
}

static void print_sentence(const struct ct_processes_shown *s, size_t i) {
    fputs("limits: " CT_WRAP_HANG, s->out);
    print_names(s, i);
    fprintf(s->out, "%s\n", s->traces[i].limits);
}

void ct_processes_limits_print(const struct ct_processes_shown *s, int with_clean) {
    size_t shown = 0, left = 0;
    int any = with_clean;
    for (size_t i = 0; i < s->all.count; i++)
        any |= has_sentence(s, i) && s->traces[i].is_limited;
    for (int limited = 1; any && limited >= 0; limited--) // those that name a limit come first
        for (size_t i = 0; i < s->all.count; i++) {
            if (!is_first(s, i) || s->traces[i].is_limited != limited)
                continue;
            if (shown++ < MOST_SENTENCES)
                print_sentence(s, i);
            else
                left++;
        }
    if (left)
        fprintf(s->out, "limits: %zu more sentence%s of other processes (--json)\n", left,
                ct_human_plural(left));
}

// SPDX-License-Identifier: Apache-2.0
// The answer first, then a row for each process, a row for each GPU, and what limits them.
#include "views/processes.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "print/companions_print.h"
#include "print/table.h"
#include "print/verdict.h"
#include "processes/siblings.h"

// What the text leaves out, one after the other, until it fits on a screen.
enum {
    BRIEF_WITHOUT_LIMITS = 1, // where no trace names one
    BRIEF_WITHOUT_PARTS,      // what the memory of each GPU is for
    BRIEF_WITHOUT_CHANGE,     // and the verdict's sentence
    BRIEF_WITHOUT_OTHERS,     // how many failed, which the verdict says, too; what "either" is
    BRIEF_MOST = BRIEF_WITHOUT_OTHERS
};

// ---- the answer ---------------------------------------------------------------------------------

static struct ct_human_text elapsed_of(const struct ct_process *p, uint64_t t_ns) {
    const uint64_t start = p->start_known ? p->start_ns : p->t_first_ns;
    return ct_human_elapsed(t_ns > start ? t_ns - start : 0);
}

// Prints "at 12:54:30Z", or the time since the start of the process.
static void print_moment(const struct ct_processes_shown *s, const struct ct_process *p,
                         uint64_t t_ns) {
    fprintf(s->out, "at %s",
            p->clock_known ? ct_human_time_of_day(t_ns + p->clock_offset).text
                           : elapsed_of(p, t_ns).text);
}

// Prints "at 12:54:30Z (+25.300 s)".
static void print_time(const struct ct_processes_shown *s, const struct ct_process *p,
                       uint64_t t_ns) {
    print_moment(s, p, t_ns);
    if (p->clock_known)
        fprintf(s->out, " (%s)", elapsed_of(p, t_ns).text);
}

static int gpu_of(const struct ct_process *p, int ordinal) {
    for (size_t k = 0; k < p->device_count; k++)
        if (p->devices[k].ordinal == ordinal)
            return p->devices[k].gpu;
    return -1;
}

// Prints how much of what other processes held was of traced ones, where they are named as a cause.
static void print_siblings(const struct ct_processes_shown *s, size_t i) {
    const struct ct_oom_event *o = &s->all.list[i].crossing;
    const struct ct_oom_reason reason = ct_oom_reason_find(o, 0);
    const struct ct_view v = ct_processes_view(s);
    struct ct_siblings siblings;
    if (!ct_oom_cause_find(o, &reason, NULL).others_bytes)
        return;
    ct_siblings_find(&siblings, &s->all, i, o->device, o->t_ns, o->split.others);
    const uint64_t bytes = siblings.bytes < o->split.others ? siblings.bytes : o->split.others;
    if (bytes)
        fprintf(s->out, ", of that traced ones %s", ct_label_size(&v, bytes).text);
    ct_siblings_free(&siblings);
}

static void print_oom(const struct ct_processes_shown *s, size_t i) {
    const struct ct_process *p = &s->all.list[i];
    const struct ct_oom_event *o = &p->crossing;
    const int gpu = gpu_of(p, o->device);
    struct ct_view v = ct_processes_view(s);
    fprintf(s->out, "%sOUT OF MEMORY: ", s->terminal->red);
    ct_processes_rows_print_name(s, i);
    if (ct_incidents_is_device_memory(o) && gpu >= 0)
        fprintf(s->out, " on GPU %s", ct_processes_rows_gpu(&s->all, gpu).text);
    fputs(", ", s->out);
    print_time(s, p, o->t_ns);
    char *cause = ct_verdict_cause(&v, o, NULL);
    fprintf(s->out, "%s\n  %s asked for %s: %s", s->terminal->reset, s->traces[i].api,
            o->bytes_known ? ct_label_size(&v, o->bytes).text : "an unknown size", cause);
    print_siblings(s, i);
    putc('\n', s->out);
    free(cause);
}

// Whether a trace before it is of the same process, which failed there, too.
static int has_failed_before(const struct ct_processes_shown *s, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (s->all.list[k].is_usable && s->all.list[k].first_trace == s->all.list[i].first_trace &&
            ct_process_has_failed(&s->all.list[k]))
            return 1;
    return 0;
}

// Counts the processes that failed; `first`: the trace with the first failure.
static size_t count_failed(const struct ct_processes_shown *s, size_t *first) {
    uint64_t first_ns = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->all.count; i++) {
        const struct ct_process *p = &s->all.list[i];
        if (!p->is_usable || !ct_process_has_failed(p))
            continue;
        if (!n || ct_process_to_moment(p, p->first_failure_ns) < first_ns) {
            *first = i;
            first_ns = ct_process_to_moment(p, p->first_failure_ns);
        }
        n += !has_failed_before(s, i);
    }
    return n;
}

// Prints how many others failed as well, and which one was the first.
static void print_other_failures(const struct ct_processes_shown *s, size_t failed, size_t first) {
    if (failed < 2)
        return;
    fprintf(s->out, "  %zu of %zu ran out of memory", failed, ct_processes_rows_count_processes(s));
    if (s->all.has_moment) {
        fputs("; first: ", s->out);
        ct_processes_rows_print_name(s, first);
        fputs(", ", s->out);
        print_moment(s, &s->all.list[first], s->all.list[first].first_failure_ns);
    }
    putc('\n', s->out);
}

// Prints which traces leave something open, so that "no" is only as far as they show.
static void print_doubts(const struct ct_processes_shown *s) {
    size_t counts[3] = {0};
    static const char *const names[3] = {"cannot be read", "INCOMPLETE", "with events missing"};
    const char *separator = ", as far as the traces show: ";
    for (size_t i = 0; i < s->all.count; i++) {
        const char *state = s->traces[i].state;
        const int is_whole =
            state && (strcmp(state, "complete") == 0 || strcmp(state, "killed") == 0 ||
                      strcmp(state, "recording") == 0);
        if (s->traces[i].error)
            counts[0]++;
        else if (s->all.list[i].is_usable && !is_whole)
            counts[s->traces[i].missing ? 1 : 2]++;
    }
    for (size_t k = 0; k < 3; k++)
        if (counts[k]) {
            fprintf(s->out, "%s%zu %s", separator, counts[k], names[k]);
            separator = ", ";
        }
}

static void print_no_oom(const struct ct_processes_shown *s) {
    size_t recovered = 0;
    for (size_t i = 0; i < s->all.count; i++)
        recovered += s->all.list[i].incidents.failed + s->all.list[i].incidents.retried;
    fputs(s->terminal->bold, s->out);
    if (recovered)
        fprintf(s->out, "%zu OOM%s recovered", recovered, recovered == 1 ? " was" : "s were");
    else
        fputs("No OOM occurred", s->out);
    print_doubts(s);
    fprintf(s->out, "%s\n", s->terminal->reset);
}

// Prints where and when the most was tracked.
static void print_peak(const struct ct_processes_shown *s) {
    const struct ct_processes *all = &s->all;
    struct ct_view v = ct_processes_view(s);
    if (all->what != CT_PROCESSES_PEAK || all->gpu < 0)
        return;
    fprintf(s->out, "Most tracked on one GPU by all together: %s%s on GPU %s, ",
            all->is_about_sum ? "about " : "", ct_label_size(&v, all->sum).text,
            ct_processes_rows_gpu(all, all->gpu).text);
    print_moment(s, &all->list[all->reference], all->t_ns);
    fputs(all->gpus[all->gpu].unknown ? ", as far as it is known\n" : "\n", s->out);
}

static void print_answer(const struct ct_processes_shown *s) {
    size_t first = 0, shown = 0;
    const size_t failed = count_failed(s, &first);
    if (!ct_processes_rows_count_usable(s))
        return;
    if (!failed)
        print_no_oom(s);
    else if (s->all.has_moment)
        print_oom(s, s->all.process);
    for (size_t i = 0; failed && !s->all.has_moment && i < s->all.count && shown < 3; i++)
        if (s->all.list[i].is_usable && ct_process_has_failed(&s->all.list[i])) {
            print_oom(s, i);
            shown++;
        }
    if (s->brief < BRIEF_WITHOUT_OTHERS)
        print_other_failures(s, failed, first);
    print_peak(s);
}

// ---- GPUs ---------------------------------------------------------------------------------------

// Whether a part of the rest is of the processes or of others, and the sum of both is not all that
// is known.
static int is_partly_split(const struct ct_gpu *g) {
    return g->used_known && g->split_known && g->unattributed;
}

static int has_either(const struct ct_processes_shown *s) {
    int any = 0;
    for (size_t i = 0; i < s->all.gpu_count; i++)
        any |= is_partly_split(&s->all.gpus[i]);
    return any;
}

// The last one is left out where nothing is either's.
static const struct ct_table_column gpu_columns[] = {
    {"GPU", 0, CT_TABLE_LEFT},        {"procs", 3, CT_TABLE_RIGHT},
    {"capacity", 2, CT_TABLE_RIGHT},  {"tracked", 0, CT_TABLE_RIGHT},
    {"untracked", 0, CT_TABLE_RIGHT}, {"others", 0, CT_TABLE_RIGHT},
    {"free", 0, CT_TABLE_RIGHT},      {"either", 0, CT_TABLE_RIGHT},
};
enum { GPU_COLUMNS = sizeof gpu_columns / sizeof *gpu_columns };

// Adds untracked and others, or their sum where only that is known, what is free, and the part that
// is either's.
static void add_rest(struct ct_table *t, const struct ct_processes_shown *s,
                     const struct ct_gpu *g) {
    const int split = g->split_known;
    const uint64_t parts[] = {g->tracked, split ? g->untracked : g->rest, split ? g->others : 0,
                              g->free, split ? g->unattributed : 0};
    struct ct_human_text text[5];
    ct_human_bytes_of_parts(text, parts, 5, g->total, s->options->units, split ? 2 : 1);
    ct_table_add_cell(t, !g->used_known ? "-" : split ? text[1].text : "together");
    ct_table_add_cell(t, !g->used_known ? "-" : text[split ? 2 : 1].text);
    ct_table_add_cell(t, g->used_known ? text[3].text : "-");
    if (t->column_count == GPU_COLUMNS)
        ct_table_add_cell(t, is_partly_split(g) ? text[4].text : "");
}

// Adds "  weights 12.55 GiB, KV cache 8.78 GiB, 4 smaller parts 61.20 MiB": the largest parts of
// what the processes together have allocated.
static void add_parts(struct ct_table *t, const struct ct_processes_shown *s,
                      const struct ct_gpu *g) {
    enum { MOST = 4 };
    const struct ct_view v = ct_processes_view(s);
    uint64_t parts[CT_ACCOUNT_TRACKED_ROWS], rest = g->tracked;
    size_t smaller = 0;
    for (unsigned i = 0; i < CT_ACCOUNT_TRACKED_ROWS; i++)
        parts[i] = g->account.row[i].bytes;
    if (parts[CT_COMPONENT_OTHER] == g->tracked)
        return; // nothing is known of it
    char *text = NULL;
    size_t size;
    FILE *out = ct_heap_open_text(&text, &size);
    fputs("      " CT_WRAP_HANG, out);
    for (int n = 0; n < MOST; n++) {
        unsigned largest = 0;
        for (unsigned i = 1; i < CT_ACCOUNT_TRACKED_ROWS; i++)
            largest = parts[i] > parts[largest] ? i : largest;
        if (!parts[largest])
            break;
        fprintf(out, "%s%s %s", n ? ", " : "",
                ct_account_row_title((enum ct_account_row_kind)largest),
                ct_label_size(&v, parts[largest]).text);
        rest -= parts[largest];
        parts[largest] = 0;
    }
    for (unsigned i = 0; i < CT_ACCOUNT_TRACKED_ROWS; i++)
        smaller += parts[i] != 0;
    if (rest)
        fprintf(out, ", %zu smaller part%s %s", smaller, ct_human_plural(smaller),
                ct_label_size(&v, rest).text);
    ct_heap_close_text(out);
    ct_table_add_row(t, text, NULL);
    free(text);
}

static void add_gpu(struct ct_table *t, const struct ct_processes_shown *s, size_t i) {
    const struct ct_gpu *g = &s->all.gpus[i];
    const struct ct_view v = ct_processes_view(s);
    char text[80];
    ct_table_begin_row(t);
    ct_table_add_cell(t, ct_processes_rows_gpu(&s->all, (int)i).text);
    (void)snprintf(text, sizeof text, "%zu", g->processes);
    ct_table_add_cell(t, text);
    ct_table_add_cell(t, g->total ? ct_label_size(&v, g->total).text : "-");
    (void)snprintf(text, sizeof text, "%s%s", ct_label_size(&v, g->tracked).text,
                   g->last_seen ? "*" : "");
    ct_table_add_cell(t, text);
    add_rest(t, s, g);
    if (s->brief < BRIEF_WITHOUT_PARTS)
        add_parts(t, s, g);
}

// Prints "GPU 0/1a2b is MIG instance 3/0 of card 1, ..." of those that are no cards.
static void print_kinds(const struct ct_processes_shown *s) {
    enum { MOST = 8 };
    size_t n = 0;
    for (size_t i = 0; i < s->all.gpu_count; i++) {
        char kind[80];
        if (ct_device_kind_is_card(&s->all.gpus[i].kind) || n++ >= MOST)
            continue;
        ct_device_kind_describe(&s->all.gpus[i].kind, kind, sizeof kind);
        fprintf(s->out, "%s %s: %s", n == 1 ? "GPU" CT_WRAP_HANG : ",",
                ct_processes_rows_gpu(&s->all, (int)i).text, kind);
    }
    if (n > MOST)
        fprintf(s->out, ", %zu more (--json)", n - MOST);
    if (n)
        putc('\n', s->out);
}

enum { MOST_GPUS = 16 };

static void print_gpus(const struct ct_processes_shown *s) {
    size_t shown = 0, known = 0;
    for (size_t i = 0; i < s->all.gpu_count; i++)
        known += s->all.gpus[i].ordinal < CT_MAX_DEVICES;
    if (!s->all.has_moment || !known)
        return;
    struct ct_view v = ct_processes_view(s);
    struct ct_table table;
    ct_table_init(&table, gpu_columns, GPU_COLUMNS - !has_either(s), 0);
    for (size_t i = 0; i < s->all.gpu_count && shown < MOST_GPUS; i++)
        if (s->all.gpus[i].ordinal < CT_MAX_DEVICES) {
            add_gpu(&table, s, i);
            shown++;
        }
    ct_table_print(&v, &table);
    if (known > shown)
        fprintf(s->out, "%zu more GPUs (--json)\n", known - shown);
    print_kinds(s);
}

// ---- what limits the figures --------------------------------------------------------------------

#define LEAST_DRIFT_NS UINT64_C(1000000) // less is of the readings

static void print_clock_note(const struct ct_processes_shown *s) {
    const uint64_t drift = ct_hosts_find_drift(s->all.hosts, s->all.host_count);
    if (!s->all.has_moment)
        fputs("no common time: the traces are of several machines or boots, or do not say of "
              "which; no sums\n",
              s->out);
    if (s->all.alignment != CT_ALIGNED_BY_TIME_OF_DAY)
        return;
    fprintf(s->out,
            "%zu hosts (of a GPU behind the @), aligned by wall clock; their clocks may differ",
            s->all.host_count);
    if (drift >= LEAST_DRIFT_NS)
        fprintf(s->out, " (on one host it was moved by %s)", ct_human_duration(drift).text);
    putc('\n', s->out);
}

// Prints "23 lines of rank 0 (pid 11), 13 of rank 1 (pid 12), 2 more processes".
static void print_owned_lines(const struct ct_processes_shown *s) {
    enum { MOST = 4 };
    const struct ct_log_owners *o = &s->owners;
    size_t shown = 0;
    char name[CT_PROCESS_NAME];
    for (size_t i = 0; i < o->lines->count; i++) {
        if (o->list[i].kind != CT_LOG_OWNED || shown++ >= MOST)
            continue;
        const uint64_t lines = o->lines->list[i]->facts.lines;
        ct_process_name(&s->all.list[o->list[i].process], name);
        fprintf(s->out, "%s%s%s of %s", shown == 1 ? "" : ", ", ct_human_count(lines).text,
                shown > 1    ? ""
                : lines == 1 ? " line"
                             : " lines",
                name);
    }
    if (shown > MOST)
        fprintf(s->out, ", %zu more tags", shown - MOST);
}

// Prints "11, 12, ..." of the process ids that are of a kind.
static size_t print_pids(const struct ct_processes_shown *s, enum ct_log_owner_kind kind) {
    enum { MOST = 3 };
    const struct ct_log_owners *o = &s->owners;
    size_t shown = 0;
    for (size_t i = 0; i < o->lines->count; i++) {
        const struct ct_line_tag *tag = &o->lines->list[i]->tag;
        if (o->list[i].kind != kind || shown > MOST)
            continue;
        if (shown == MOST)
            fputs(", ...", s->out);
        else
            fprintf(s->out, "%s%s %" PRIu64, shown ? ", " : "", tag->has_pid ? "pid" : "rank",
                    tag->has_pid ? tag->pid : tag->rank);
        shown++;
    }
    return shown;
}

// Says which lines of the log are whose, and why others are not told apart.
static void print_log_note(const struct ct_processes_shown *s) {
    const struct ct_log_owners *o = &s->owners;
    if (!s->companions.has_log || !o->tagged)
        return;
    fputs("log: " CT_WRAP_HANG, s->out);
    if (o->owned) {
        print_owned_lines(s);
        fputs(", by their tags; all others count for every process", s->out);
    } else if (!o->ambiguous) {
        fputs("its tags (", s->out);
        (void)print_pids(s, CT_LOG_NO_TRACE);
        fputs(") name none of these processes: every line counts for all of them", s->out);
    }
    if (o->ambiguous) {
        fputs(o->owned ? "; " : "", s->out);
        (void)print_pids(s, CT_LOG_AMBIGUOUS);
        fputs(" is that of several processes, so its lines count for all", s->out);
    }
    putc('\n', s->out);
}

// What a note says of the GPUs that it is about.
struct gpu_note {
    const char *text;
    int (*applies)(const struct ct_gpu *g);
};

static int has_no_uuid(const struct ct_gpu *g) {
    return !g->uuid_known && g->ordinal < CT_MAX_DEVICES && g->processes > 1;
}
static int has_other_ordinals(const struct ct_gpu *g) {
    return g->uuid_known &&
           (!g->same_ordinals || (g->index_known && g->nvml_index != (uint64_t)g->ordinal));
}
static int is_contradictory(const struct ct_gpu *g) {
    return g->is_contradictory;
}
static int differs_in_total(const struct ct_gpu *g) {
    return g->totals_differ;
}
static int has_calls_under_way(const struct ct_gpu *g) {
    return g->calls_under_way != 0;
}
static int is_shared(const struct ct_gpu *g) {
    return g->is_shared;
}
static int has_unknown(const struct ct_gpu *g) {
    return g->unknown != 0;
}
static int has_last_seen(const struct ct_gpu *g) {
    return g->last_seen != 0;
}

static const struct gpu_note notes[] = {
    {"no UUID: told apart by CUDA's number alone, which may be another GPU in each process",
     has_no_uuid},
    {"NVML's number; a process's own report has CUDA's", has_other_ordinals},
    {"the reading and what the processes tracked contradict each other", is_contradictory},
    {"the processes see different capacities", differs_in_total},
    {"allocations were under way at the reading; others may include them", has_calls_under_way},
    {"either: untracked or others' (NVML read at another moment)", is_partly_split},
    {"shared memory (IPC) counts where it was allocated", is_shared},
    {"what \"-\" held is unknown, and part of others", has_unknown},
    {"* as of the process's last event, at most 60 s before; it may have ended since",
     has_last_seen},
};

static void print_gpu_notes(const struct ct_processes_shown *s) {
    if (!s->all.has_moment)
        return;
    for (size_t n = 0; n < sizeof notes / sizeof *notes; n++) {
        const char *separator = "GPU ";
        if (notes[n].applies == is_partly_split && s->brief >= BRIEF_WITHOUT_OTHERS)
            continue;
        for (size_t i = 0, shown = 0; i < s->all.gpu_count && shown <= 4; i++)
            if (notes[n].applies(&s->all.gpus[i])) {
                fprintf(s->out, "%s%s", separator,
                        shown < 4 ? ct_processes_rows_gpu(&s->all, (int)i).text : "...");
                separator = ", ";
                shown++;
            }
        if (*separator == ',')
            fprintf(s->out, ": %s\n", notes[n].text);
    }
}

// Says what the column OOMs is, what was not recorded, and of the first trace without its end since
// when nothing is known.
static void print_trace_notes(const struct ct_processes_shown *s) {
    size_t n = 0, first = 0, estimates = 0, retried = 0;
    for (size_t i = 0; i < s->all.count; i++) {
        retried += s->all.list[i].incidents.retried;
        estimates += s->all.list[i].is_usable && s->traces[i].is_estimate;
        if (s->all.list[i].is_usable && s->traces[i].missing && !n++)
            first = i;
    }
    if (retried && s->options->command != CT_COMMAND_explain) // which has no such column
        fputs("OOMs: those behind the + were recovered by PyTorch's retry\n", s->out);
    if (estimates)
        fprintf(s->out,
                "an estimate: %zu process%s recorded some of the allocations only "
                "(CUTRACE_SAMPLE, CUTRACE_MIN_SIZE)\n",
                estimates, estimates == 1 ? "" : "es");
    if (!n)
        return;
    fputs("INCOMPLETE: ", s->out);
    ct_utf8_print_sanitized(s->out, s->traces[first].path, strlen(s->traces[first].path));
    fputs(s->all.list[first].events ? ": unknown after its last event, " : ": no event", s->out);
    if (s->all.list[first].events)
        print_time(s, &s->all.list[first], s->all.list[first].t_last_ns);
    if (n > 1)
        fprintf(s->out, " (and %zu more)", n - 1);
    putc('\n', s->out);
}

// Says which traces are of one process.
static void print_same_processes(const struct ct_processes_shown *s) {
    enum { MOST = 3 };
    size_t n = 0;
    char name[CT_PROCESS_NAME];
    for (size_t i = 0; i < s->all.count; i++) {
        size_t traces = 1;
        if (!s->all.list[i].is_usable || s->all.list[i].first_trace != i)
            continue;
        for (size_t k = i + 1; k < s->all.count; k++)
            traces += s->all.list[k].is_usable && s->all.list[k].first_trace == i;
        if (traces == 1 || n++ >= MOST)
            continue;
        ct_process_name(&s->all.list[i], name);
        fprintf(s->out, "%s%s is one process with %zu traces", n == 1 ? "" : ", ", name, traces);
    }
    if (n > MOST)
        fprintf(s->out, ", %zu more", n - MOST);
    if (n)
        fputs(": what it does not track is in the first one's row\n", s->out);
}

// The process whose report is worth reading next: that of the OOM, else the one that holds the
// most. SIZE_MAX: there is none.
static size_t find_next(const struct ct_processes_shown *s) {
    size_t best = SIZE_MAX;
    uint64_t most = 0;
    if (s->all.what == CT_PROCESSES_OOM)
        return s->all.process;
    for (size_t i = 0; i < s->all.count; i++)
        for (size_t k = 0; k < s->all.list[i].device_count; k++) {
            const struct ct_process_device *d = &s->all.list[i].devices[k];
            if (s->all.list[i].is_usable && (best == SIZE_MAX || d->curve.high > most)) {
                best = i;
                most = d->curve.high;
            }
        }
    for (size_t i = 0; i < s->all.count && best == SIZE_MAX; i++)
        if (s->all.list[i].is_usable)
            best = i;
    return best;
}

static void print_next(const struct ct_processes_shown *s) {
    const size_t i = find_next(s);
    if (i == SIZE_MAX)
        return;
    fprintf(s->out, "%snext: cutrace-report ", s->terminal->dim);
    ct_utf8_print_sanitized(s->out, s->traces[i].path, strlen(s->traces[i].path));
    fprintf(s->out, " (one process's own report)%s\n", s->terminal->reset);
}

// ---- the screen ---------------------------------------------------------------------------------

static void print_screen(const struct ct_processes_shown *s) {
    print_answer(s);
    ct_processes_verdicts_print_first(s, s->brief < BRIEF_WITHOUT_CHANGE ? CT_PROCESSES_WHOLE
                                                                         : CT_PROCESSES_NAME);
    ct_processes_rows_print(s);
    print_gpus(s);
    print_clock_note(s);
    print_log_note(s);
    print_gpu_notes(s);
    print_same_processes(s);
    print_trace_notes(s);
    ct_processes_limits_print(s, s->brief < BRIEF_WITHOUT_LIMITS);
    print_next(s);
}

// The lines of the text at the width of a terminal, so that what is left out does not depend on it.
static unsigned count_lines(struct ct_processes_shown *s) {
    enum { WIDTH = 80 };
    const struct ct_terminal *const terminal = s->terminal;
    struct ct_terminal form = *terminal;
    FILE *const to = s->out;
    char *text = NULL;
    size_t size = 0;
    unsigned lines = 0;
    FILE *memory = ct_heap_open_text(&text, &size);
    form.width = WIDTH;
    s->terminal = &form;
    s->out = ct_terminal_open_text(&form, memory);
    print_screen(s);
    fclose(s->out);
    ct_heap_close_text(memory);
    s->out = to;
    s->terminal = terminal;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    free(text);
    return lines;
}

void ct_processes_text_print(struct ct_processes_shown *s) {
    enum { LINES = 24, MOST_FEWER = 6 };
    while (s->brief < BRIEF_MOST && count_lines(s) > LINES)
        s->brief++;
    while (s->fewer_rows < MOST_FEWER && count_lines(s) > LINES)
        s->fewer_rows++;
    print_screen(s);
}

void ct_processes_text_print_answer(struct ct_processes_shown *s) {
    print_answer(s);
    ct_processes_verdicts_print_first(s, CT_PROCESSES_WHOLE);
}

void ct_processes_text_explain(struct ct_processes_shown *s) {
    enum { MOST = 3 };
    struct ct_view v = ct_processes_view(s);
    v.companions = &s->companions;
    print_answer(s);
    ct_processes_verdicts_print(s, MOST);
    ct_companions_print(&v, NULL);
    print_clock_note(s);
    print_log_note(s);
    print_trace_notes(s);
    print_next(s);
}

// SPDX-License-Identifier: Apache-2.0
// Several traces: one table of their processes, and verdicts over all of them, in place of a report
// for each.
#ifndef CT_PROCESSES_VIEW_H
#define CT_PROCESSES_VIEW_H

#include "answer/companions.h"
#include "answer/view.h"
#include "base/error.h"
#include "diagnose/log_owners.h"
#include "diagnose/verdicts.h"
#include "print/label.h"
#include "processes/processes.h"

// What the text and the JSON of several processes are made of.

// Of one trace on the command line.
struct ct_process_shown {
    const char *path;
    int status;          // exit code
    char *error;         // why the trace cannot be read, without its path; NULL: it can
    const char *state;   // of a readable one: "complete", "INCOMPLETE", ...
    const char *missing; // as ct_trace_state_missing; NULL: it has its end
    int is_estimate;     // options left out allocations
    char *limits;        // what its figures leave out, as its own report says (analyze/coverage.h)
    int is_limited;      // something is left out, as far as is known
    char api[100];       // of the crossing, as text
    char *recorded_api;  // the same as recorded; NULL: there is none
    uint32_t recorded_api_length;
    char *recorder_line; // as recorder_line.h; NULL: there is none
};

struct ct_processes_shown {
    const struct ct_arguments *options;
    const struct ct_terminal *terminal;
    FILE *out;
    struct ct_processes all;
    struct ct_process_shown *traces;    // in the order of all.list
    const struct ct_phase_rules *rules; // of --rules; NULL: none
    struct ct_companions companions;    // of --log
    struct ct_log_owners owners;        // of the lines of the log
    struct ct_verdicts verdicts;        // of all traces
    // Of the text: what it leaves out (processes_text.c), and how many rows.
    int brief;
    size_t fewer_rows;
};

// Whether the options ask about one trace only, so that there is no table: 0, or -1 with the error
// set (exit code 2).
int ct_processes_check_options(const struct ct_arguments *o, struct ct_error *error);
// Reads all traces. `warn` is called for each trace that can be read; NULL: the caller prints
// warnings and errors. Returns 0, or -1 with the error set: a file beside the traces cannot be
// read.
int ct_processes_read(struct ct_processes_shown *s, const struct ct_arguments *o,
                      const struct ct_terminal *terminal, const struct ct_phase_rules *rules,
                      void (*warn)(const struct ct_view *), struct ct_error *error);
// Prints the table, or for `explain` the verdicts, or the JSON document of all. Returns an exit
// code.
int ct_processes_print(struct ct_processes_shown *s);
void ct_processes_close(struct ct_processes_shown *s);

// What the files of the view give each other.

// What the functions of other views need; there is no trace.
static inline struct ct_view ct_processes_view(const struct ct_processes_shown *s) {
    return (struct ct_view){.options = s->options, .terminal = s->terminal, .out = s->out};
}

// The table: a row for each process and GPU (processes_rows.c).

// The number of a GPU: NVML's, or else CUDA's; with that of its host where there are several, and
// with the first digits of the hash of its UUID where another GPU has the same. `gpu`: a position
// in the list.
struct ct_human_text ct_processes_rows_gpu(const struct ct_processes *all, int gpu);
// Prints "rank 3 (pid 4714)", or "pid 4714 (python3)" where the rank is unknown.
void ct_processes_rows_print_name(const struct ct_processes_shown *s, size_t i);
void ct_processes_rows_print(const struct ct_processes_shown *s);
// The number of traces that count: readable, and no copies.
size_t ct_processes_rows_count_usable(const struct ct_processes_shown *s);
// The number of processes that they are of.
size_t ct_processes_rows_count_processes(const struct ct_processes_shown *s);

// Prints what the figures of the traces leave out: a line "limits: ..." for each sentence of their
// own reports, with the processes that it is about. `with_clean`: also where no trace names one.
void ct_processes_limits_print(const struct ct_processes_shown *s, int with_clean);

// The verdicts as text (processes_verdicts.c).

// How much of the first verdict and its first advice the table begins with.
enum ct_processes_verdict_length { CT_PROCESSES_WHOLE, CT_PROCESSES_NO_SUMMARY, CT_PROCESSES_NAME };

// Prints the first verdict and its first advice, unless nothing failed.
void ct_processes_verdicts_print_first(const struct ct_processes_shown *s,
                                       enum ct_processes_verdict_length length);
// Prints the first `most` verdicts in full.
void ct_processes_verdicts_print(const struct ct_processes_shown *s, size_t most);

// One screen of text (processes_text.c).

// The table: what failed and why, the processes, the GPUs. At most 24 lines where possible.
void ct_processes_text_print(struct ct_processes_shown *s);
// Only what failed, or what the most was, and the verdict.
void ct_processes_text_print_answer(struct ct_processes_shown *s);
// The verdicts in full.
void ct_processes_text_explain(struct ct_processes_shown *s);

// One JSON document.
void ct_processes_json_print(const struct ct_processes_shown *s);

#endif

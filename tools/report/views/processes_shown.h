// SPDX-License-Identifier: Apache-2.0
// What the text and the JSON of several processes are made of.
#ifndef CT_PROCESSES_SHOWN_H
#define CT_PROCESSES_SHOWN_H

#include "answer/companions.h"
#include "answer/view.h"
#include "diagnose/log_owners.h"
#include "diagnose/verdicts.h"
#include "processes/processes.h"

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
    size_t recorded_api_length;
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

#endif

// SPDX-License-Identifier: Apache-2.0
// What stands beside a trace: a server's log, or an error message alone, and metrics (--log).
#ifndef CT_COMPANIONS_H
#define CT_COMPANIONS_H

#include "answer/view.h"
#include "text/facts.h"
#include "text/metrics.h"
#include "text/read_text.h"

struct ct_companions {
    int has_log, has_metrics;
    struct ct_text_facts log;
    struct ct_metrics metrics;
    struct ct_process_lines log_lines; // of the log
    uint64_t left_out_lines;           // of the log, which `log` does not have
};

// Reads what the options name. Returns 0, or -1 with the error set; then nothing is left to free.
int ct_companions_read(const struct ct_arguments *o, struct ct_companions *c,
                       struct ct_error *error);
// Leaves out what other processes of the trace's kind wrote into the log.
void ct_companions_choose_lines(struct ct_companions *c, const struct ct_trace *t);
void ct_companions_free(struct ct_companions *c);

#endif

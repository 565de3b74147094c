// SPDX-License-Identifier: Apache-2.0
// What stands beside a trace: a server's log, or an error message alone, and metrics (--log).
// Views show what these add, and draw no conclusion from it.
#ifndef CT_COMPANIONS_H
#define CT_COMPANIONS_H

#include "analyze/incidents.h"
#include "base/json.h"
#include "print/view.h"
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
// Prints a section for each. `incidents`: NULL if the view has none; then which one the log is
// about is not shown.
void ct_companions_print(struct ct_view *v, const struct ct_incidents *incidents);
// Adds `companions`: null without any of the options.
void ct_companions_add_json(struct ct_json *j, const struct ct_view *v,
                            const struct ct_incidents *incidents);

#endif

// SPDX-License-Identifier: Apache-2.0
// The views: each turns a trace, or what the analyses found in it, into text or JSON on `out`.
#ifndef CT_VIEWS_H
#define CT_VIEWS_H

#include "read/trace.h"
#include "symbols/call_sites.h"
#include "views/arguments.h"
#include "views/terminal.h"

struct ct_view {
    const struct ct_options *options;
    const struct ct_terminal *term;
    struct ct_trace *trace;
    struct ct_call_sites *sites;
    FILE *out;
    uint64_t from_ns, to_ns; // of the events, as --from and --to ask
};

// Each returns an exit code.
int ct_view_summary(struct ct_view *v);
int ct_view_oom(struct ct_view *v);
int ct_view_top(struct ct_view *v);
int ct_view_timeline(struct ct_view *v);
int ct_view_frag(struct ct_view *v);
int ct_view_dump(struct ct_view *v);
int ct_view_info(struct ct_view *v);
int ct_view_check(struct ct_view *v);
int ct_view_seal(struct ct_view *v);
int ct_view_export(struct ct_view *v);
int ct_view_symbolize(struct ct_view *v);

const char *ct_event_names_op(uint32_t op);

#endif

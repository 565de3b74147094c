// SPDX-License-Identifier: Apache-2.0
// A trace that is shown: what every view, and what views share, is called with.
#ifndef CT_PRINT_VIEW_H
#define CT_PRINT_VIEW_H

#include "analyze/moment.h"
#include "cli/arguments.h"
#include "cli/terminal.h"
#include "read/trace.h"
#include "symbols/call_sites.h"
#include "symbols/phases.h"

struct ct_companions; // companions.h
struct ct_page;       // page/page.h
struct ct_processes;  // processes/processes.h

struct ct_view {
    const struct ct_arguments *options;
    const struct ct_terminal *terminal;
    struct ct_trace *trace;
    struct ct_call_sites *sites;
    struct ct_phases *phases; // NULL: the view knows none
    FILE *out;
    uint64_t from_ns, to_ns; // the range of --from and --to
    struct ct_instant at;    // of --at, if it is a time or an event
    // The time of --at, else of --to, if it lies in a gap of the events, or after one and what is
    // live is not known again; 0: it does not. Views show the last event before the gap instead.
    uint64_t in_gap_ns;
    const struct ct_companions *companions; // of --log; NULL: none
    struct ct_page *page;                   // of the command html; else NULL
    // All traces that are looked at together, and the position of this one; NULL: it is the only
    // one.
    const struct ct_processes *processes;
    size_t process;
    struct ct_view *before; // of the command diff: A, where this one is B; else NULL
};

#endif

// SPDX-License-Identifier: Apache-2.0
// What a summary shows: the crossing of capacity, or the peak, of one device, with what was live
// then, its account, and the verdicts; with --at, of the trace up to that moment. One pass over the
// trace, and parts of others.
#ifndef CT_SUMMARY_READ_H
#define CT_SUMMARY_READ_H

#include "analyze/account.h"
#include "analyze/capacity.h"
#include "analyze/phase_times.h"
#include "analyze/program_pools.h"
#include "analyze/scan.h"
#include "analyze/sharing.h"
#include "analyze/untracked_curve.h"
#include "answer/view_scan.h"
#include "diagnose/verdicts.h"
#include "diagnose/vllm_fit.h"
#include "processes/neighbours.h"
#include "processes/siblings.h"
#include "read/facts.h"

// What is noted at each event of the scan, besides what the scan itself finds.
struct ct_summary_notes {
    struct ct_neighbours neighbours; // of all devices, over time
    struct ct_untracked_curve untracked[CT_DEVICES];
    struct ct_phase_start_up *start_up; // to be found in the same pass, or NULL
};

struct ct_summary {
    struct ct_view *v;
    struct ct_scan scan;
    const struct ct_oom_event *crossing;   // or NULL
    int device;                            // of the text; -1 = none was seen
    struct ct_capacity capacity;           // of that device
    struct ct_live_totals live;            // at the crossing, or at the peak
    struct ct_account account;             // of these
    struct ct_siblings siblings;           // at that moment, of several traces
    struct ct_account at_end[CT_DEVICES];  // for JSON
    struct ct_shared shared[CT_DEVICES];   // at the same moment
    uint64_t host_registered;              // bytes of page-locked host memory at the same moment
    struct ct_program_pools program_pools; // at the same moment
    // The moment of --at, up to which everything here is; then `shared`, `host_registered`,
    // `program_pools` and the text are of it.
    int has_moment;
    struct ct_moment moment;
    struct ct_live_totals live_then; // at that moment
    struct ct_account account_then;
    struct ct_summary_notes notes;
    struct ct_facts facts;
    size_t leaks_count;          // rows that leaks has; 0 also where it cannot be a problem yet
    struct ct_verdicts verdicts; // none with --capacity: nothing need have failed
    struct ct_verdicts own;      // of several traces: those of this trace alone, without the log
    // Of the text alone.
    struct ct_human_text when; // what it describes: "at that moment"
    int brief;                 // what is left out (summary.c)
    int without_limits;        // the line of the limits is left out if it names none
    int without_also;          // of the last line, only the first command
    unsigned components;       // most rows of the account's components
};

void ct_summary_read(struct ct_summary *s, struct ct_view *v);
// The same for a page, which shows more: with the accounts at the end, and for the phases, if their
// start-up is asked for (else NULL).
void ct_summary_read_with(struct ct_summary *s, struct ct_view *v, struct ct_phase_start_up *u);
// Tells what other traced processes held in the account of a device at a time.
void ct_summary_set_siblings(const struct ct_view *v, struct ct_account *a, int device,
                             uint64_t t_ns, struct ct_siblings *siblings);
// Joins the verdicts of --log. `facts` are those of the trace; `capacity` of its device, 0: not
// known; `fit`: the bounds of its settings, NULL: not known. `source` is how evidence names the
// log.
void ct_summary_join_companions(struct ct_verdicts *to, const struct ct_companions *c,
                                const struct ct_facts *facts, uint64_t capacity,
                                const struct ct_vllm_fit *fit, const char *source);
// The moment of the text on the summary's device, and what was live then.
uint64_t ct_summary_moment_ns(const struct ct_summary *s);
const struct ct_live_totals *ct_summary_live(const struct ct_summary *s);
const struct ct_torch_pool_totals *ct_summary_pool(const struct ct_summary *s);
void ct_summary_free(struct ct_summary *s);
// Whether the trace has calls that share memory with other processes.
int ct_summary_has_shared(const struct ct_summary *s);
// What is shared on all devices together.
struct ct_shared ct_summary_sum_shared(const struct ct_summary *s);
// How many calls failed in the period whose events were overwritten, on the summary's device.
uint64_t ct_summary_count_overwritten_ooms(const struct ct_summary *s);

// Whether what the recorder noted of a trace is what its events say. `info` compares each chunk;
// this compares the figures of a whole pass, which cost nothing more.

// Warns if they differ. Compares nothing where the pass was not over the whole trace, or where a
// part of it cannot be read.
void ct_notes_compare_warn(const struct ct_summary *s);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the verdicts of a trace are made of: the moment that decides, and what is known of the
// process and of the log beside it.
#ifndef CT_TRACE_CASE_H
#define CT_TRACE_CASE_H

#include "analyze/account.h"
#include "analyze/oom_reason.h"
#include "analyze/scan.h"
#include "diagnose/rules.h"
#include "diagnose/vllm_fit.h"
#include "processes/neighbours.h"
#include "processes/process.h"
#include "processes/siblings.h"
#include "read/facts.h"
#include "read/trace.h"
#include "sites/leaks.h"
#include "symbols/phases.h"
#include "text/facts.h"

// What a server's capture of CUDA graphs has made so far: executables, and what they took.

struct ct_graph_captures {
    uint64_t count;           // instantiations in the phase of capture; trials before it are none
    uint64_t measured, bytes; // of so many of them it is known what they took
};

// Reads the events up to a time, of one device.
struct ct_graph_captures ct_graph_captures_read(struct ct_trace *t, struct ct_phases *phases,
                                                int device, uint64_t to_ns);

struct ct_trace_case {
    const struct ct_trace *trace;
    const struct ct_scan *scan;
    const struct ct_oom_event *crossing; // NULL: no request failed
    const struct ct_live_totals *live;   // of the crossing's device, or at the peak
    const struct ct_account *account;    // of the same
    // Of the crossing's device: what other traced processes held then. NULL: this trace alone is
    // looked at.
    const struct ct_siblings *siblings;
    const struct ct_neighbours *neighbours; // of all devices; NULL: not looked for
    const struct ct_leaks *leaks;           // of that device up to there; NULL: not looked for
    struct ct_phases *phases;
    const struct ct_facts *facts;
    const struct ct_text_facts *log; // NULL: there is none
    int device;                      // index; -1: none was used
    uint64_t capacity;               // of the device in bytes; 0: unknown
    // Of a vLLM server that has served: its budget on that device, and how far its settings could
    // go, as the command fit says it. NULL: not known.
    const struct ct_vllm_budget *budget;
    const struct ct_vllm_fit *fit;
    // Where these are not: what the profile run took above what was there before. 0: not known.
    uint64_t profile_bytes;
    struct ct_graph_captures graphs; // up to the crossing, if that is in their capture
    uint64_t earlier_ooms;           // calls out of memory whose events were overwritten
    int is_complete;                 // every event from the start of the process to its end
};

// A failed request, as the rules see it.
struct ct_judged {
    const struct ct_trace_case *c;
    const struct ct_oom_event *oom;
    struct ct_oom_reason reason;
    struct ct_oom_cause cause;
    enum ct_phase phase;
    enum ct_component component; // of what was asked for
    struct ct_figures n;         // of the request, and of rules that set more
    struct ct_rule_source rules; // without steps
};

// `j` must stay where it is.
void ct_judged_make(struct ct_judged *j, const struct ct_trace_case *c, struct ct_verdicts *to);
uint64_t ct_judged_row(const struct ct_judged *j, enum ct_account_row_kind kind);
// Add evidence, as steps of rules of a struct ct_judged: the request; its phase; the largest rows
// of the account; that the KV cache is not the cause, where that is so; how much was missing, as
// `cause` of the summary says it.
void ct_judged_add_request(const void *judged, struct ct_verdict *v);
void ct_judged_add_phase(const void *judged, struct ct_verdict *v);
void ct_judged_add_account(const void *judged, struct ct_verdict *v);
void ct_judged_add_kv_cache(const void *judged, struct ct_verdict *v);
void ct_judged_add_missing(const void *judged, struct ct_verdict *v);
// Adds evidence: what other traced processes held, or that nothing is known of them; the processes
// besides this one that NVML listed at the failure, those with the most.
void ct_judged_add_siblings(const struct ct_judged *j, struct ct_verdict *v);
void ct_judged_add_neighbours(const struct ct_judged *j, struct ct_verdict *v);
// When the KV cache of a server was allocated, all at once; 0: there is none, or it was not.
int ct_judged_cache_time(const struct ct_judged *j, uint64_t *t_ns);
// The other process that NVML lists with the most at the failure, as views name it. 0: none.
int ct_judged_largest_neighbour(const struct ct_judged *j, char label[CT_NEIGHBOUR_LABEL],
                                uint64_t *bytes);
// By how much other processes grew between a time and the failure, as NVML lists them. 0: not
// known.
int ct_judged_others_grown(const struct ct_judged *j, uint64_t from_ns, uint64_t *bytes);
// The stack that holds the most of what is of no known component, or NULL.
const struct ct_holding *ct_judged_largest_other(const struct ct_judged *j);
// Adds evidence: bytes at the moment of the request.
void ct_judged_add_bytes(const struct ct_judged *j, struct ct_verdict *v, uint64_t bytes,
                         const char *text);
// The same, with the stack that holds the most of it.
void ct_judged_add_holding(const struct ct_judged *j, struct ct_verdict *v,
                           const struct ct_holding *most, uint64_t bytes, const char *text);

#endif

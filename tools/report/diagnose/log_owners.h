// SPDX-License-Identifier: Apache-2.0
// What a log is about: which of its lines are of which of several traced processes, and which
// failed allocation is the one of its error message.
//
// Lines are told by the process ids and ranks that tags before them name. A tag is a process's own
// word, as is what its trace says of it, so that both have the number of the same container.
#ifndef CT_LOG_OWNERS_H
#define CT_LOG_OWNERS_H

#include "analyze/incidents.h"
#include "processes/processes.h"
#include "text/read_text.h"

#define CT_LOG_SHARED SIZE_MAX // lines that are of no given process alone

// Why lines with a tag are shared.
enum ct_log_owner_kind {
    CT_LOG_OWNED,
    CT_LOG_NO_TAG,
    CT_LOG_NO_TRACE,  // no given trace has that process id or rank
    CT_LOG_AMBIGUOUS, // several traces have it, or processes of several machines or containers
};

struct ct_log_owners {
    const struct ct_process_lines *lines;
    struct ct_log_owner {
        enum ct_log_owner_kind kind;
        size_t process;              // of owned lines: its position in ct_processes
    } * list;                        // for each element of `lines`
    size_t owned, tagged, ambiguous; // elements that are so; tagged: that have a tag
};

void ct_log_owners_find(struct ct_log_owners *o, const struct ct_process_lines *lines,
                        const struct ct_processes *all);
void ct_log_owners_free(struct ct_log_owners *o);
// Whether any lines are of that process.
int ct_log_owners_has(const struct ct_log_owners *o, size_t process);
// Makes what the lines of a process say, or those that are shared (CT_LOG_SHARED): its errors, with
// the figures and settings of the shared lines, which are about all processes. `whole`: what the
// whole log says. Freed with ct_text_facts_free.
void ct_log_owners_read(const struct ct_log_owners *o, const struct ct_text_facts *whole,
                        size_t process, struct ct_text_facts *to);
// The same of one trace alone: makes what the log says without the lines of its peers, which are
// other processes of the same kind ("Worker_TP1" beside "Worker_TP0", another rank). Returns how
// many lines are left out; 0: `to` is not made, because the whole log may be about the process.
uint64_t ct_log_owners_read_one(const struct ct_process_lines *lines, const struct ct_process *p,
                                const struct ct_text_facts *whole, struct ct_text_facts *to);

// The failed allocation of a trace that an error message is about.

struct ct_found_error {
    // The head of the incident of which a call fits; NULL: none does.
    const struct ct_oom_event *event;
    int by_size, by_device, by_free; // what the message has, and fits
    size_t fitting;                  // how many incidents fit as well
};

// `message` may be NULL: the text has none. Of several that fit as well, the last one.
struct ct_found_error ct_find_error(const struct ct_incidents *n,
                                    const struct ct_text_fact *message);

#endif

// SPDX-License-Identifier: Apache-2.0
// What is kept of a program's annotations: the ranges that are open in each thread, and how many
// calls there were.
#ifndef CT_ANNOTATION_STATE_H
#define CT_ANNOTATION_STATE_H

#include <stdint.h>

#include <cutrace/format/format.h>

// ---- an annotation ----------------------------------------------------------------------------

// Names are ids (store/name_table.h); 0: none. Of the fields below `present` those are there that
// CT_SET has set.
struct ct_annotation {
    uint32_t api;  // the function that the program called
    uint32_t text; // of a mark or a range; of a sub-allocation: of its pool
    uint32_t domain, category;
    uint64_t present;
    uint64_t handle, ptr, bytes;
};

// Makes an event of it.
void ct_annotation_fill(struct ct_event *e, enum ct_op op, const struct ct_annotation *a);

// ---- open ranges ------------------------------------------------------------------------------

// The ranges that are open in the calling thread, as far as a trace needs them: a range that was
// pushed before the thread's first event in this trace is published right before that event.

// Ranges of a thread that are kept. Of deeper ones it is only known how many there are: those that
// begin before the thread's first event are left out, and a range that ends while there are some is
// taken for one of them, whatever its domain.
#define CT_ANNOTATION_NEST 64u

// How many ranges of the calling thread are open, kept and not published.
extern __thread uint32_t ct_annotation_pending __attribute__((tls_model("initial-exec")));

// Notes a range that begins. `published`: its event is in the trace; else it waits for the thread's
// first event, or is left out. Returns its level among the open ranges of its domain, from 0 on.
int ct_annotation_push_open(const struct ct_annotation *a, int published, int *is_left_out);

// Notes the end of the innermost range of this domain (a name id, 0: none). Sets *published to
// whether its begin was, or may have been. Returns its level; -1: no range of the domain is open.
int ct_annotation_pop_open(uint32_t domain, int *published);

// Takes the outermost pending range as an event. Returns whether there was one.
int ct_annotation_take_pending(struct ct_event *e);

// A forked child has a trace of its own: what is open in its thread is pending again. Returns how
// many ranges of it are left out.
uint32_t ct_annotation_nest_reinit_child(void);

// ---- counts -----------------------------------------------------------------------------------

// How many calls of annotations this process made while it was traced, and how many of them its
// trace leaves out (INFO annotations.*). Any thread at any time.

void ct_annotation_count_call(void);
// Of these: before the first event, and not recorded later.
void ct_annotation_count_early(void);
// Sub-allocations of calls with very many.
void ct_annotation_count_skipped(uint64_t count);

// In a forked child: its trace leaves out that many ranges, which began in the parent.
void ct_annotation_counts_reinit_child(uint64_t left_out);

#endif

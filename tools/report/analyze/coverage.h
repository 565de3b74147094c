// SPDX-License-Identifier: Apache-2.0
// Whether a trace may be trusted: what the recorder knows to have gone past it, from the facts of
// the trace. An older trace lacks them, and then nothing is concluded.
#ifndef CT_COVERAGE_H
#define CT_COVERAGE_H

#include "read/trace.h"

// How calls are heard of: one of these for each that the program looked a function up by.
enum ct_coverage_way {
    CT_COVERAGE_DLSYM,
    CT_COVERAGE_PROC_ADDRESS,
    CT_COVERAGE_ENTRY_POINT,
    CT_COVERAGE_WAYS
};

enum ct_coverage_kind {
    CT_COVERAGE_CALLS,    // it calls functions of `to` in place of the hooks
    CT_COVERAGE_FIRST,    // the same, of an interposer, which may call the hooks in turn
    CT_COVERAGE_LOOK_UPS, // it has a CUDA runtime, or asks like one, and its look-ups go to `to`
    CT_COVERAGE_RUNTIME   // the same, and its look-ups got wrappers
};

struct ct_coverage_module {
    enum ct_coverage_kind kind;
    struct ct_string name;
    struct ct_string to; // "libcudart.so.13 2": with the number of functions; of FIRST, too
};

// A look-up that got the function as it is. `is_hooked`: there are hooks for others of this name.
struct ct_coverage_passed {
    struct ct_string name; // of a driver function
    int64_t version;       // as asked for; 0: by dlsym; -1: it belongs to a second interposer
    uint64_t count;
    int is_hooked;
};

struct ct_coverage {
    int is_recorded;   // the recorder knew these facts
    uint64_t looks;    // at modules and children; 0: the process ended before the first one
    int modules_known; // there was a look that could read them
    uint64_t modules, modules_unreadable, drivers;
    struct {
        uint64_t seen, wrapped;
    } look_ups[CT_COVERAGE_WAYS];
    uint64_t names_dropped;            // look-ups of names that were not kept
    struct ct_coverage_passed *passed; // those that are hooked come first, then by name
    size_t passed_count;
    struct ct_coverage_module *list; // by kind, then by name
    size_t count;
    int children_known;
    uint64_t children, children_untraced, children_unreadable;
    struct ct_string children_names; // "" where they are not recorded
    uint64_t calls, functions;       // of hooks that were called
    const struct ct_string *cupti;   // its state, NULL: it was not asked for
    int cupti_hears;                 // it is on, and there is one driver
    uint64_t nvtx_modules;           // 0: not heard
    const struct ct_string *torch;   // version of the PyTorch whose allocator was heard, or NULL
    int is_audited;
    uint64_t audit_both, audit_only_cupti, audit_only_preload;
    uint64_t switched_off; // how often `cutrace ctl` switched the recording off
};

void ct_coverage_read(struct ct_coverage *c, const struct ct_trace *t);
void ct_coverage_free(struct ct_coverage *c);
const char *ct_coverage_way_name(enum ct_coverage_way way);
const char *ct_coverage_kind_name(enum ct_coverage_kind kind);
// Whether its calls are not seen. (Those that an interposer gets first may be, if it calls on.)
int ct_coverage_is_past_hooks(const struct ct_coverage_module *m);
// How many modules are of a kind.
size_t ct_coverage_count(const struct ct_coverage *c, enum ct_coverage_kind kind);

// What the figures of a report leave out: one sentence, which every view prints. `lost`: events
// that the recorder lost. `to` has CT_COVERAGE_LIMITS bytes. Returns whether something is left out,
// as far as is known.
enum { CT_COVERAGE_LIMITS = 1024 };
int ct_coverage_limits(const struct ct_coverage *c, uint64_t lost, char *to);

#endif

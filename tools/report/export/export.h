// SPDX-License-Identifier: Apache-2.0
// What the formats of `export` are made from: the trace, the range, and what is held at moments.
// Each format streams: its memory grows with what is live and with the stacks, not with the trace.
//
// Names in a trace are a stranger's. A format gets them as valid UTF-8 without control characters
// and cut to CT_EXPORT_NAME bytes (ct_export_text), and escapes what has a meaning of its own.
#ifndef CT_EXPORT_H
#define CT_EXPORT_H

#include "analyze/moment.h"
#include "export/formats.h"
#include "read/clocks.h"
#include "read/new_file.h"
#include "sites/allocation_rows.h"
#include "sites/site_totals.h"
#include "symbols/phases.h"

enum { CT_EXPORT_NAME = 1024 };

// What a device holds at a moment, as `top --at` has it.
struct ct_export_held {
    int device; // index
    struct ct_moment moment;
    struct ct_live_totals totals;
    struct ct_holding *allocated; // each stack and kind once: all that it has allocated
    size_t allocated_count;
};

struct ct_export {
    // Set by the caller.
    struct ct_trace *trace;
    struct ct_call_sites *sites;
    struct ct_phases *phases;
    uint64_t from_ns, to_ns;
    int device;                 // -1: all
    enum ct_moment_kind wanted; // of formats that describe one moment
    struct ct_instant at;       // of CT_MOMENT_TIME
    unsigned table;             // of formats that have one, enum ct_export_table
    // The output. Formats that write a stream use `out`; one that needs a file writes `file`.
    FILE *out;
    struct ct_new_file *file;
    uint64_t entries; // rows, stacks or packets that were written
    // By ct_export_prepare.
    struct ct_scan scan;
    struct ct_clocks clocks;
    struct {
        struct ct_export_held *list; // NULL: not asked for yet
        size_t count;
    } held[CT_MOMENT_TIME + 1]; // by kind of moment
    char **labels;              // of call sites, by stack; NULL: not asked for yet
    size_t label_count;
};

// Scans the range once; ct_export_release frees what it found.
void ct_export_prepare(struct ct_export *x);
void ct_export_release(struct ct_export *x);

// What each device holds at a moment; of the peak, each at its own. May read the trace at the first
// call for a kind; valid until ct_export_release.
const struct ct_export_held *ct_export_get_held(struct ct_export *x, enum ct_moment_kind kind,
                                                size_t *count);
// To be called before ct_export_site: lets labels show as many callers as they do in `top`, for the
// same stacks whatever the format (ct_site_groups_refine).
void ct_export_refine_sites(struct ct_export *x);
// Whether the trace has such a moment.
int ct_export_has_moment(const struct ct_export *x, enum ct_moment_kind kind);
// "live at the peak", as titles have it.
const char *ct_export_moment_title(enum ct_moment_kind kind);
// "GPU 0", or of the memory whose device is not known.
void ct_export_device_title(int device, char *to, size_t size);
// Copies a name as every format gets it. `to` has CT_EXPORT_NAME bytes; returns the length.
size_t ct_export_text(char *to, const char *bytes, size_t length);
size_t ct_export_string(const struct ct_export *x, uint32_t string, char *to);
// Copies "NVIDIA driver 580.82" as every format gets it. Returns 0 if the release is not known.
int ct_export_driver(const struct ct_export *x, char *to);
// The label of a stack's call site; NULL for no stack. Valid until ct_export_release.
const char *ct_export_site(struct ct_export *x, uint32_t stack);

// int ct_export_write_folded(struct ct_export *x, struct ct_error *error) and its like. Each
// returns 0, or -1 with an error of its own; errors of the output are found by the caller.
typedef int ct_export_write(struct ct_export *x, struct ct_error *error);
#define CT_EXPORT_DECLARE_STREAM(name) ct_export_write ct_export_write_##name;
#define CT_EXPORT_DECLARE_FILE(name) ct_export_write ct_export_write_##name;
#define CT_EXPORT_DECLARE_SNAPSHOT(name)
#define CT_EXPORT_FORMAT(name, ending, output, options, help) CT_EXPORT_DECLARE_##output(name)
#include "export/formats.def"

#endif

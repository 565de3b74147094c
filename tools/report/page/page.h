// SPDX-License-Identifier: Apache-2.0
// The command html: one HTML file of one or several traces. PAGE.md describes it.
#ifndef CT_PAGE_H
#define CT_PAGE_H

#include "analyze/untracked_curve.h"
#include "answer/summary_read.h"
#include "base/names.h"
#include "page/device_series.h"
#include "views/processes.h"

// All that a page says of one trace, read in three passes that its views share.

struct ct_page_reading {
    struct ct_summary summary;
    struct ct_phase_start_up *start_up; // that the first pass found for the second
    // What commands print, as text (phases: as HTML) and as the document of --json; NULL: the page
    // lacks it.
    char *text[CT_COMMANDS], *json[CT_COMMANDS];
    struct ct_untracked_share share; // of the document of info
    int has_series[CT_DEVICES];
    struct ct_device_series series[CT_DEVICES];
};

// How the text of views is laid out in a page.
extern const struct ct_terminal ct_page_terminal;
// The text that a view prints of the trace. The caller frees it.
char *ct_page_reading_print(const struct ct_view *v, enum ct_command command,
                            int (*view)(struct ct_view *));
// Reads the summary. What is written of it now has the labels of call sites that the summary has.
void ct_page_reading_begin(struct ct_page_reading *r, struct ct_view *v);
// Reads everything else; then labels may be finer.
void ct_page_reading_finish(struct ct_page_reading *r, struct ct_view *v);
void ct_page_reading_free(struct ct_page_reading *r);

// The data of the page: PAGE.md defines it.

// Writes the object of a trace. The reading is of the same view. `strings`: the frames that the
// stacks of all traces share, each of which is written once.
void ct_page_data_write_trace(struct ct_json *j, struct ct_view *v, const struct ct_page_reading *r,
                              const char *title, struct ct_names *strings);

enum ct_page_section {
#define CT_PAGE_SECTION(ID, id, title) CT_PAGE_##ID,
#include "page/page_sections.def"
    CT_PAGE_SECTIONS
};

struct ct_page {
    const struct ct_arguments *options;
    char path[4200];
    // What has been written so far, in memory: each section, and the data.
    struct ct_page_part {
        FILE *out;
        char *text;
        size_t bytes;
    } section[CT_PAGE_SECTIONS], data;
    FILE *data_stream; // into `data`
    struct ct_json json;
    struct ct_names strings; // of the stacks of all traces
    unsigned traces;
    char *title; // of the page
    // Several traces, looked at together.
    int has_processes;
    struct ct_arguments processes_options;
    struct ct_processes_shown processes;
};

// Returns 0, or -1 with an error: the file cannot be written under its name, or one beside the
// traces cannot be read. Several traces are read together, and then each by ct_view_html.
int ct_page_begin(struct ct_page *p, const struct ct_arguments *o,
                  const struct ct_phase_rules *rules, struct ct_error *error);
// Writes the page to a stream in place of its file. To be called once, instead of ct_page_end.
void ct_page_print(struct ct_page *p, FILE *out);
// Writes the file. Returns 0, or -1 with an error.
int ct_page_end(struct ct_page *p, struct ct_error *error);
void ct_page_free(struct ct_page *p);

// What the sections of the page say of one trace, as HTML that needs no script.

// Adds what several traces together say.
void ct_page_sections_write_processes(struct ct_page *p);
// Writes what the sections say of the summary, which is of the same view.
void ct_page_sections_begin(struct ct_page *p, struct ct_view *v, const struct ct_summary *s,
                            const char *title);
// Writes the texts of the commands after it.
void ct_page_sections_finish(struct ct_page *p, const struct ct_page_reading *r);

#endif

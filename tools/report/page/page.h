// SPDX-License-Identifier: Apache-2.0
// The command html: one HTML file of one or several traces. PAGE.md describes it.
#ifndef CT_PAGE_H
#define CT_PAGE_H

#include "page/page_reading.h"
#include "views/processes.h"

// The data of the page: PAGE.md defines it.

// Frames that the stacks of all traces share: each is written once.
struct ct_page_strings {
    char **list;
    size_t count, room;
    struct ct_id_set set;
};

void ct_page_strings_write(struct ct_json *j, const struct ct_page_strings *s);
void ct_page_strings_free(struct ct_page_strings *s);

// Writes the object of a trace. The reading is of the same view.
void ct_page_data_write_trace(struct ct_json *j, struct ct_view *v, const struct ct_page_reading *r,
                              const char *title, struct ct_page_strings *strings);

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
    struct ct_page_strings strings;
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

// SPDX-License-Identifier: Apache-2.0
// The command html: one HTML file of one or several traces. PAGE.md describes it.
#ifndef CT_PAGE_H
#define CT_PAGE_H

#include "page/page_data.h"
#include "views/processes.h"

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

#endif

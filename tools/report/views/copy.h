// SPDX-License-Identifier: Apache-2.0
// What the command copy says of the copies that it has made.
#ifndef CT_VIEW_COPY_H
#define CT_VIEW_COPY_H

#include "answer/new_trace.h"

// Of one trace.
struct ct_copy_part {
    const char *trace; // its name, which lasts
    struct ct_copied copied;
    int has_journal;
    uint64_t added_events, torn_events; // of its journal
    struct ct_source_locations lines;   // of --symbolize
};

struct ct_copy_result {
    const struct ct_arguments *options;
    const struct ct_scrub *scrub; // NULL: --seal, which replaces no name
    uint64_t bytes;               // of the file
    struct ct_copy_part *parts;
    size_t count;
};

// Notes what is known of an open trace; `copied` and `lines` are the caller's to set.
void ct_copy_part_note(struct ct_copy_part *part, const struct ct_trace *t);
// Prints it as text or as the document of --json.
void ct_copy_result_print(const struct ct_copy_result *r, FILE *out);
void ct_copy_part_free(struct ct_copy_part *part);

#endif

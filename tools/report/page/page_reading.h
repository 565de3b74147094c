// SPDX-License-Identifier: Apache-2.0
// All that a page says of one trace, read in three passes that its views share.
#ifndef CT_PAGE_READING_H
#define CT_PAGE_READING_H

#include "analyze/untracked_curve.h"
#include "answer/summary_read.h"
#include "page/device_series.h"

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

#endif

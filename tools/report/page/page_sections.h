// SPDX-License-Identifier: Apache-2.0
// What the sections of the page say of one trace, as HTML that needs no script.
#ifndef CT_PAGE_TRACE_SECTIONS_H
#define CT_PAGE_TRACE_SECTIONS_H

#include "page/page.h"

// Adds what several traces together say.
void ct_page_sections_write_processes(struct ct_page *p);
// Writes what the sections say of the summary, which is of the same view.
void ct_page_sections_begin(struct ct_page *p, struct ct_view *v, const struct ct_summary *s,
                            const char *title);
// Writes the texts of the commands after it.
void ct_page_sections_finish(struct ct_page *p, const struct ct_page_reading *r);

#endif

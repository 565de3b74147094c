// SPDX-License-Identifier: Apache-2.0
// What the sections of the page say of one trace, as HTML that needs no script.
#ifndef CT_PAGE_TRACE_SECTIONS_H
#define CT_PAGE_TRACE_SECTIONS_H

#include "page/page.h"

// How the text of views is laid out in a page.
extern const struct ct_terminal ct_page_terminal;
// Adds what several traces together say.
void ct_page_sections_write_processes(struct ct_page *p);
// The summary is of the same view.
void ct_page_sections_write(struct ct_page *p, struct ct_view *v, const struct ct_summary *s,
                            const char *title);

#endif

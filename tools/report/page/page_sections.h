// SPDX-License-Identifier: Apache-2.0
// What the sections of the page say of one trace, as HTML that needs no script.
#ifndef CT_PAGE_TRACE_SECTIONS_H
#define CT_PAGE_TRACE_SECTIONS_H

#include "page/page.h"

// The summary is of the same view.
void ct_page_sections_write(struct ct_page *p, struct ct_view *v, const struct ct_summary *s,
                            const char *title);

#endif

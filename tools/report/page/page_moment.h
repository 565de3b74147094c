// SPDX-License-Identifier: Apache-2.0
// A time in the page's text as a link to its moment, which the script answers (PAGE.md).
#ifndef CT_PAGE_MOMENT_H
#define CT_PAGE_MOMENT_H

#include "answer/view.h"

// device: an index, or -1: the moment is of no device.
void ct_page_moment_link(FILE *out, const struct ct_view *v, uint64_t t_ns, int device);

#endif

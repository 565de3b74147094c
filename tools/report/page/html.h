// SPDX-License-Identifier: Apache-2.0
// Text in HTML: names come from traces of strangers, and are never markup.
#ifndef CT_HTML_H
#define CT_HTML_H

#include <stdio.h>

#include "answer/view.h"

// Writes text with what has a meaning in HTML escaped. Control characters but newlines become
// U+FFFD. The text is valid UTF-8.
void ct_html_text(FILE *out, const char *text);
// Writes a cell of a table: class may be NULL, `text` is escaped.
void ct_html_cell(FILE *out, const char *class, const char *text);
// A stream that writes JSON into a script element: <, >, &, U+2028 and U+2029 as \u003c and so on.
// The caller closes it; `to` stays open.
FILE *ct_html_open_json(FILE *to);

// A time in the page's text as a link to its moment, which the script answers (PAGE.md).

// device: an index, or -1: the moment is of no device.
void ct_page_moment_link(FILE *out, const struct ct_view *v, uint64_t t_ns, int device);

#endif

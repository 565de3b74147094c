// SPDX-License-Identifier: Apache-2.0
// Text in HTML: names come from traces of strangers, and are never markup.
#ifndef CT_HTML_H
#define CT_HTML_H

#include <stdio.h>

// Writes text with what has a meaning in HTML escaped. Control characters but newlines become
// U+FFFD. The text is valid UTF-8.
void ct_html_text(FILE *out, const char *text);
// Writes a cell of a table: class may be NULL, `text` is escaped.
void ct_html_cell(FILE *out, const char *class, const char *text);
// A stream that writes JSON into a script element: <, >, &, U+2028 and U+2029 as \u003c and so on.
// The caller closes it; `to` stays open.
FILE *ct_html_open_json(FILE *to);

#endif

// SPDX-License-Identifier: Apache-2.0
// Text in lines that are no wider than the terminal, broken between words.
//
// The views write to a stream that lays out each line when it ends. A line that fits is written as
// it is. One that does not is continued on further lines, with a hanging indent. A figure is never
// broken, and escape sequences of colours have no width. A word that does not fit into a line of
// its own is elided in the middle if it names a place in code (a path or a symbol), and else
// written whole.
//
// Marks within the text say what the text does not show. They are control characters, which a text
// from a trace does not have after it was sanitized.
#ifndef CT_WRAP_H
#define CT_WRAP_H

#include <stddef.h>
#include <stdio.h>

// The column where continuation lines begin; without one, two columns right of the line's indent.
// It is not used where it leaves less than three eighths of the width.
#define CT_WRAP_HANG "\001"
// Around the name of a place in code: it is not broken, spaces or not, and elided if need be.
#define CT_WRAP_NAME "\002"
#define CT_WRAP_NAME_END "\003"
// Anywhere in a line that must stay one: a row of a table.
#define CT_WRAP_ROW "\004"

struct ct_wrap_style {
    size_t width;     // in columns
    const char *mark; // of an elision; NULL: nothing is elided
};

// Opens a stream that lays out text and writes it to `out`, which must stay open; fclose ends it.
// A write fails if `out` has an error.
FILE *ct_wrap_open(const struct ct_wrap_style *style, FILE *out);

// ---- names that are too long --------------------------------------------------------------------

// Shortens names of places in code. What tells two of them apart is at their ends: the file, line
// and function, so the middle goes.

// Shortens a sanitized text to at most `columns` columns, in place and never to more bytes. `mark`
// ("…" or "...") stands for what is left out: first in the longest name, between its components
// ("c10::cuda::…::malloc", "torch/…/functional.py:12 f") if they allow it. The text keeps its
// beginning and its end.
void ct_elide(char *text, size_t columns, const char *mark);

#endif

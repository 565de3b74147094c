// SPDX-License-Identifier: Apache-2.0
// Shortens names of places in code. What tells two of them apart is at their ends: the file, line
// and function, so the middle goes.
#ifndef CT_ELIDE_H
#define CT_ELIDE_H

#include <stddef.h>

// Shortens a sanitized text to at most `columns` columns, in place and never to more bytes. `mark`
// ("…" or "...") stands for what is left out: first in the longest name, between its components
// ("c10::cuda::…::malloc", "torch/…/functional.py:12 f") if they allow it. The text keeps its
// beginning and its end.
void ct_elide(char *text, size_t columns, const char *mark);

#endif

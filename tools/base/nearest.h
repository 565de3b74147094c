// SPDX-License-Identifier: Apache-2.0
// The word that somebody meant who mistyped one.
#ifndef CT_NEAREST_H
#define CT_NEAREST_H

#include <stddef.h>

struct ct_nearest {
    const char *typed;
    size_t length;    // of `typed`
    const char *best; // NULL: no word is near enough
    size_t edits;
};

// Looks at one more word that may have been meant. At most 2 insertions, deletions, replacements or
// exchanges of neighbours are a mistyping, and fewer than the word is long.
void ct_nearest_try(struct ct_nearest *n, const char *word);

#endif

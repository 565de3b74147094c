// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <string.h>

enum { LONGEST = 32, MOST_EDITS = 2 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// Returns the edits that make one word of the other (Damerau and Levenshtein, neighbours exchanged
// at most once).
static size_t count_edits(const char *a, size_t n, const char *b, size_t m) {
    size_t row[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (!i || !j) {
                row[i][j] = i + j;
                continue;
            }
            const size_t replaced = row[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            row[i][j] = least(replaced, least(row[i - 1][j], row[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[i][j] = least(row[i][j], row[i - 2][j - 2] + 1);
        }
    return row[n][m];
}

void ct_nearest_try(struct ct_nearest *n, const char *word) {
    const size_t length = strlen(word);
    if (n->length > LONGEST || length > LONGEST || !n->length)
        return;
    const size_t edits = count_edits(n->typed, n->length, word, length);
    if (edits <= MOST_EDITS && edits < least(n->length, length) && (!n->best || edits < n->edits)) {
        n->best = word;
        n->edits = edits;
    }
}

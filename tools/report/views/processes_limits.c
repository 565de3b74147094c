// SPDX-License-Identifier: Apache-2.0
#include "views/processes_limits.h"

#include <string.h>

#include "views/processes_rows.h"

enum { MOST_SENTENCES = 3, MOST_NAMES = 3 };

static int has_sentence(const struct ct_processes_shown *s, size_t i) {
    return s->all.list[i].is_usable && s->traces[i].limits;
}

static int is_same(const struct ct_processes_shown *s, size_t a, size_t b) {
    return has_sentence(s, a) && has_sentence(s, b) &&
           strcmp(s->traces[a].limits, s->traces[b].limits) == 0;
}

// Whether no trace before it has the same sentence.
static int is_first(const struct ct_processes_shown *s, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (is_same(s, i, k))
            return 0;
    return has_sentence(s, i);
}

static size_t count_same(const struct ct_processes_shown *s, size_t i) {
    size_t n = 0;
    for (size_t k = 0; k < s->all.count; k++)
        n += is_same(s, i, k) != 0;
    return n;
}

// Prints "rank 0 (pid 11), rank 1 (pid 12), 2 more: ", of the processes that have the same
// sentence; nothing if these are all.
static void print_names(const struct ct_processes_shown *s, size_t i) {
    const size_t same = count_same(s, i);
    size_t shown = 0;
    if (same == ct_processes_rows_count_usable(s))
        return;
    for (size_t k = 0; k < s->all.count && shown < MOST_NAMES; k++)
        if (is_same(s, i, k)) {
            fputs(shown++ ? ", " : "", s->out);
            ct_processes_rows_print_name(s, k);
        }
    if (same > shown)
        fprintf(s->out, ", %zu more", same - shown);
    fputs(": ", s->out);
}

static void print_sentence(const struct ct_processes_shown *s, size_t i) {
    fputs("limits: " CT_WRAP_HANG, s->out);
    print_names(s, i);
    fprintf(s->out, "%s\n", s->traces[i].limits);
}

void ct_processes_limits_print(const struct ct_processes_shown *s, int with_clean) {
    size_t shown = 0, left = 0;
    int any = with_clean;
    for (size_t i = 0; i < s->all.count; i++)
        any |= has_sentence(s, i) && s->traces[i].is_limited;
    for (int limited = 1; any && limited >= 0; limited--) // those that name a limit come first
        for (size_t i = 0; i < s->all.count; i++) {
            if (!is_first(s, i) || s->traces[i].is_limited != limited)
                continue;
            if (shown++ < MOST_SENTENCES)
                print_sentence(s, i);
            else
                left++;
        }
    if (left)
        fprintf(s->out, "limits: %zu more sentence%s of other processes (--json)\n", left,
                ct_human_plural(left));
}

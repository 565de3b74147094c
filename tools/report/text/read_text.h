// SPDX-License-Identifier: Apache-2.0
// Reads a log or an error message, of any length, in bounded memory.
#ifndef CT_READ_TEXT_H
#define CT_READ_TEXT_H

#include <stdio.h>

#include "text/facts.h"
#include "text/line_tag.h"

// Reads a stream to its end, whose first `n` bytes were read already: at most CT_READ_TEXT_AHEAD.
// Returns 0, or -1 if it cannot be read.
enum { CT_READ_TEXT_AHEAD = 4096 };
int ct_read_text_rest(const char *ahead, size_t n, FILE *in, struct ct_text_facts *f);
// The same of the whole text, and of the lines of each process that tags name. The first element is
// that of the lines without a tag; `facts.lines` counts the lines of each. Where a long line may go
// on in one without a tag (a terminal wrapped it), this one belongs to both.
struct ct_process_lines {
    struct ct_part_of_log {
        struct ct_line_tag tag;
        struct ct_text_facts facts;
    } * *list;
    size_t count, room;
};
int ct_read_text_by_process(FILE *in, struct ct_text_facts *f, struct ct_process_lines *l);
void ct_process_lines_free(struct ct_process_lines *l);

#endif

// SPDX-License-Identifier: Apache-2.0
// Reads a log or an error message, of any length, in bounded memory.
#ifndef CT_READ_TEXT_H
#define CT_READ_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "text/facts.h"

// Which process wrote a line of a log, by the tags that servers, Ray and torchrun put before it,
// and where that process ran, by those of containers.

enum { CT_LINE_TAG_NAME = 24 };

struct ct_line_tag {
    int has_pid, has_rank;
    uint64_t pid;    // "(Worker_TP0 pid=456)": as that process sees it, as in its trace
    uint64_t rank;   // "[rank0]:"
    uint32_t source; // of a service ("vllm-1  | "), a pod or an IP address; 0: none is named
    char name[CT_LINE_TAG_NAME]; // "Worker_TP0"; "": none
};
// Whether it names a process.
int ct_line_tag_is_known(const struct ct_line_tag *tag);

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

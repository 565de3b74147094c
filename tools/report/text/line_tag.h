// SPDX-License-Identifier: Apache-2.0
// Which process wrote a line of a log, by the tags that servers, Ray and torchrun put before it,
// and where that process ran, by those of containers.
#ifndef CT_LINE_TAG_H
#define CT_LINE_TAG_H

#include <stddef.h>
#include <stdint.h>

enum { CT_LINE_TAG_NAME = 24 };

struct ct_line_tag {
    int has_pid, has_rank;
    uint64_t pid;    // "(Worker_TP0 pid=456)": as that process sees it, as in its trace
    uint64_t rank;   // "[rank0]:"
    uint32_t source; // of a service ("vllm-1  | "), a pod or an IP address; 0: none is named
    char name[CT_LINE_TAG_NAME]; // "Worker_TP0"; "": none
};

// Reads what was put before the sentence of a line, `prefix` letters. Of two tags in a row the last
// one counts: a process that passes lines on puts its own tag before theirs.
void ct_line_tag_read(const char *line, size_t prefix, struct ct_line_tag *tag);
// Whether it names a process.
int ct_line_tag_is_known(const struct ct_line_tag *tag);
// Whether two name the same process.
int ct_line_tag_is_same(const struct ct_line_tag *a, const struct ct_line_tag *b);

#endif

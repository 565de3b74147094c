// SPDX-License-Identifier: Apache-2.0
// Marks of the program (cutrace.h, NVTX) over time: the first one of each of equal parts of it, and
// how many there were, so that any number of marks is a bounded list.
#ifndef CT_PROGRAM_MARKS_H
#define CT_PROGRAM_MARKS_H

#include <cutrace/format/format.h>

#include "read/definitions.h"

enum { CT_PROGRAM_MARKS = 100 };

struct ct_program_mark {
    uint64_t count; // in this part; 0: none, and the rest means nothing
    uint64_t t_ns, event;
    uint32_t text, domain, thread; // ids, 0: none
};

struct ct_program_marks {
    const struct ct_definitions *definitions;
    uint64_t from_ns, to_ns;
    uint64_t count; // all
    struct ct_program_mark part[CT_PROGRAM_MARKS];
};

void ct_program_marks_init(struct ct_program_marks *m, const struct ct_definitions *n,
                           uint64_t from_ns, uint64_t to_ns);
// For each event. Marks that libraries make for each of their calls (range_noise.def) do not count.
void ct_program_marks_note(struct ct_program_marks *m, const struct ct_event *e, uint64_t number);
// "epoch 3", "epoch 3, and 4 more", sanitized; bytes of `to` are `size`.
void ct_program_marks_label(const struct ct_program_marks *m, const struct ct_program_mark *mark,
                            char *to, size_t size);

#endif

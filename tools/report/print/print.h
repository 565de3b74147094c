// SPDX-License-Identifier: Apache-2.0
// Text that several views print: labels, call stacks, reasons and tables of call sites.
#ifndef CT_PRINT_H
#define CT_PRINT_H

#include "analyze/program_marks.h"
#include "answer/view.h"
#include "print/label.h"
#include "sites/site_groups.h"

// Prints "at the OOM, at +5.944 s", and whether what was live then is known.
void ct_print_moment(struct ct_view *v, const struct ct_moment *m);
// A value as the height of a character; `top`: of the highest one.
const char *ct_print_height(const struct ct_view *v, uint64_t value, uint64_t top);
// Prints the label of a call site at the end of a row of a table, from `column` on. A terminal
// shows the ends of a label that is too wide.
void ct_print_label(struct ct_view *v, const char *label, size_t column);
// Prints it within a sentence.
void ct_print_name(struct ct_view *v, const char *label);
// Prints the frames of a stack that are not hidden, innermost first, at most `most`: "a <- b <- c".
void ct_print_callers(struct ct_view *v, uint32_t stack, unsigned most);
// The same, a line for each frame.
void ct_print_stack(struct ct_view *v, uint32_t stack, unsigned most, size_t column);
// Prints a table of call sites. `whole`: the bytes that are 100 %. `marked`: the position of the
// one that the verdict is about, which always has a row; CT_PRINT_NO_SITE: none is.
#define CT_PRINT_NO_SITE SIZE_MAX
void ct_print_site_groups(struct ct_view *v, const struct ct_site_groups *g, uint64_t whole,
                          unsigned rows, size_t marked);

// Says who resumed memory that had slept, beside the call site that it belongs to.

// Writes the label of a group, with who resumed its memory if it has slept.
void ct_resumed_label(struct ct_view *v, const struct ct_site_group *g, char *to, size_t size);
// Adds the keys resumed_bytes, resumed_by and resumed_stack. `by`: 0 if it is not known.
void ct_resumed_add_json(struct ct_json *j, struct ct_view *v, uint64_t bytes, uint32_t by);

// The names of the program's marks, below a picture or a table of the same time: prints the first
// few, or --top of them. Prints nothing without a mark.
void ct_program_marks_print(struct ct_view *v, const struct ct_program_marks *m);

// Prints a row of the figures of a device: a name, bytes, and what is said of them, which ends the
// line unless more follows.
void ct_print_row(struct ct_view *v, const char *what, uint64_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

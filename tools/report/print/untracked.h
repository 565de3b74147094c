// SPDX-License-Identifier: Apache-2.0
// Memory of the process that has no allocation: the parts that calls were measured to take, and the
// rest.
#ifndef CT_VIEWS_UNTRACKED_H
#define CT_VIEWS_UNTRACKED_H

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

#include "answer/view.h"
#include "sites/leaks.h"

enum { CT_UNTRACKED_ROWS = CT_MEASURED_PARTS + 1, CT_UNTRACKED_NOTE = 200 };

// The rows, which add up to what is untracked; none if nothing was measured, or if it is little.
struct ct_untracked_rows {
    uint64_t bytes[CT_UNTRACKED_ROWS];
    char note[CT_UNTRACKED_ROWS][CT_UNTRACKED_NOTE];
    size_t count;
};

struct ct_untracked_rows ct_untracked_list(const struct ct_breakdown *s);
// What the untracked memory of a device is called, above its rows or without any.
const char *ct_untracked_title(const struct ct_breakdown *s);
// Adds the key untracked_parts of a memory split.
void ct_untracked_add_parts(struct ct_json *j, const struct ct_breakdown *s);
// Adds the keys context_bytes, module_bytes, limit_bytes and graph_bytes of a device.
void ct_untracked_add_costs(struct ct_json *j, const struct ct_measured *m);

// Words and JSON for untracked memory that grows.

// Prints what a growth that is none any more is: " stopped growing at ...; it grew since ...", or
// that it slows down, `like` what. The end of a line.
void ct_growth_print_bounded(struct ct_view *v, const struct ct_growth_shape *s, const char *like);
// Prints a line that says how it grows, that it has filled, or that there is too little to tell;
// none where it does not grow or is not known. `is_full`: the device is full at the moment.
void ct_untracked_growth_print(struct ct_view *v, const struct ct_leaks *l, int is_full);
// Prints up to when it is known, as a part of a line: "; untracked memory: ..."; nothing where that
// is the moment.
void ct_untracked_growth_print_known(struct ct_view *v, const struct ct_leaks *l);
// Adds the keys of how something grows, and `full_in_ns`: when it alone would have filled the
// device.
void ct_growth_add_shape(struct ct_json *j, const struct ct_growth_shape *s);
void ct_growth_add_full(struct ct_json *j, const struct ct_leaks *l,
                        const struct ct_growth_shape *s);
// Adds the key `untracked`.
void ct_untracked_growth_add_json(struct ct_json *j, const struct ct_leaks *l);

#endif

// SPDX-License-Identifier: Apache-2.0
// Words and JSON for untracked memory that grows.
#ifndef CT_VIEWS_UNTRACKED_GROWTH_H
#define CT_VIEWS_UNTRACKED_GROWTH_H

#include "answer/view.h"
#include "sites/leaks.h"

// Prints what a growth that is none any more is: " stopped growing at ...; it grew since ...", or
// that it slows down, `like` what. The end of a line.
void ct_growth_print_bounded(struct ct_view *v, const struct ct_growth_shape *s, const char *like);
// Prints a line that says how it grows, that it has filled, or that there is too little to tell;
// none where it does not grow or is not known. `is_full`: the device is full at the moment.
void ct_untracked_growth_print(struct ct_view *v, const struct ct_leaks *l, int is_full);
// Prints up to when it is known, as a part of a line: "; untracked memory: ..."; nothing where that
// is the moment.
void ct_untracked_growth_print_known(struct ct_view *v, const struct ct_leaks *l);
// Adds the key `untracked`.
void ct_untracked_growth_add_json(struct ct_json *j, const struct ct_leaks *l);

#endif

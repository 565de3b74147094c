// SPDX-License-Identifier: Apache-2.0
// The screens of top --quick and frag --quick as JSON. JSON.md has the keys.
#ifndef CT_MOMENT_QUICK_JSON_H
#define CT_MOMENT_QUICK_JSON_H

#include "print/view.h"
#include "question/moment_part.h"

void ct_moment_quick_print_json(struct ct_moment_part *p, struct ct_view *v);

#endif

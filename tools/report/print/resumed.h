// SPDX-License-Identifier: Apache-2.0
// Says who resumed memory that had slept, beside the call site that it belongs to.
#ifndef CT_VIEWS_RESUMED_H
#define CT_VIEWS_RESUMED_H

#include "answer/view.h"
#include "sites/site_groups.h"

// Writes the label of a group, with who resumed its memory if it has slept.
void ct_resumed_label(struct ct_view *v, const struct ct_site_group *g, char *to, size_t size);
// Adds the keys resumed_bytes, resumed_by and resumed_stack. `by`: 0 if it is not known.
void ct_resumed_add_json(struct ct_json *j, struct ct_view *v, uint64_t bytes, uint32_t by);

#endif

// SPDX-License-Identifier: Apache-2.0
// Memory of the process that has no allocation: the parts that calls were measured to take, and the
// rest.
#ifndef CT_VIEWS_UNTRACKED_H
#define CT_VIEWS_UNTRACKED_H

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

#include "answer/view.h"
#include "base/json.h"

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

#endif

// SPDX-License-Identifier: Apache-2.0
// What the page shows of the command info.
#ifndef CT_VIEW_INFO_H
#define CT_VIEW_INFO_H

#include "answer/view.h"
#include "views/coverage.h"

struct ct_integrity;

// Prints what the trace says of its process and its devices.
void ct_info_print_facts(struct ct_view *v);
// Prints the document. `share`: after its pass; `integrity` may be NULL: it was not looked at.
void ct_info_print_json(struct ct_view *v, const struct ct_untracked_share *share,
                        const struct ct_integrity *integrity, uint64_t lost);

#endif

// SPDX-License-Identifier: Apache-2.0
// The screen of summary --quick as JSON. JSON.md has the keys.
#ifndef CT_SUMMARY_QUICK_JSON_H
#define CT_SUMMARY_QUICK_JSON_H

#include "views/summary_quick.h"

void ct_summary_quick_print_json(struct ct_quick *q);

#endif

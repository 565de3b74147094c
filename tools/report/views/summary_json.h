// SPDX-License-Identifier: Apache-2.0
// A summary as JSON. JSON.md has the keys.
#ifndef CT_SUMMARY_JSON_H
#define CT_SUMMARY_JSON_H

#include "answer/summary_read.h"

void ct_summary_print_json(struct ct_summary *s);

#endif

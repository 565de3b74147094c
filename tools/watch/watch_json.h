// SPDX-License-Identifier: Apache-2.0
// The document of cutrace watch --once --json. WATCH.md is the contract.
#ifndef CT_WATCH_JSON_H
#define CT_WATCH_JSON_H

#include <stdio.h>

#include "watch/list.h"

struct ct_json;

void ct_watch_json_print(FILE *out, const struct ct_watch_list *l);
// The keys `growth` and `full` of a device.
void ct_watch_json_add_growth(struct ct_json *j, const struct ct_watch_device *d);

#endif

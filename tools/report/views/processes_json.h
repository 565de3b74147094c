// SPDX-License-Identifier: Apache-2.0
// Several processes as one JSON document.
#ifndef CT_PROCESSES_JSON_H
#define CT_PROCESSES_JSON_H

#include "views/processes_shown.h"

void ct_processes_json_print(const struct ct_processes_shown *s);

#endif

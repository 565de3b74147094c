// SPDX-License-Identifier: Apache-2.0
// Several processes as one screen of text.
#ifndef CT_PROCESSES_TEXT_H
#define CT_PROCESSES_TEXT_H

#include "views/processes_shown.h"

void ct_processes_text_print(const struct ct_processes_shown *s);

#endif

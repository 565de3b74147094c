// SPDX-License-Identifier: Apache-2.0
// Texts with numbers (1 and up), each stored once.
#ifndef CT_NAMES_H
#define CT_NAMES_H

#include "base/id_set.h"

struct ct_names {
    char **list; // of number i at i - 1
    size_t count, room;
    struct ct_id_set set;
};

// The number of a text, which is added if it is new: then it is the highest one.
uint32_t ct_names_add(struct ct_names *n, const char *text);
void ct_names_free(struct ct_names *n);

#endif

// SPDX-License-Identifier: Apache-2.0
// Expansions of events.def.
#include "read/event_names.h"

#include <stddef.h>

const char *ct_event_names_op(uint32_t op) {
    switch (op) {
#define CT_OP(number, NAME, name) \
    case number:                  \
        return name;
#include <cutrace/format/events.def>
    default:
        return NULL;
    }
}

const char *ct_event_names_space(uint32_t space) {
    switch (space) {
#define CT_SPACE(number, NAME, name) \
    case number:                     \
        return name;
#include <cutrace/format/events.def>
    default:
        return NULL;
    }
}

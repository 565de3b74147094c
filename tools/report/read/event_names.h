// SPDX-License-Identifier: Apache-2.0
// Names of an event's operation and space, from events.def.
#ifndef CT_EVENT_NAMES_H
#define CT_EVENT_NAMES_H

#include <stdint.h>

const char *ct_event_names_op(uint32_t op);       // NULL if unknown
const char *ct_event_names_space(uint32_t space); // NULL if unknown

#endif

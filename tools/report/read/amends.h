// SPDX-License-Identifier: Apache-2.0
// Corrections of events: AMEND records name an event by its thread and time, and come later in the
// trace than the event.
#ifndef CT_AMENDS_H
#define CT_AMENDS_H

#include <cutrace/format/format.h>

#include "base/map.h"

struct ct_amends {
    struct ct_map lists; // hash of thread and time -> newest entry of a list
    struct ct_amends_entry *entries;
    size_t count, capacity;
};

// Stores what an AMEND record says: result, duration_ns and stack, as far as it has them. Its ids
// are those of the definitions.
void ct_amends_add(struct ct_amends *amends, const struct ct_event *record);
// Corrects an event. Its exact time is in [t_ns, t_ns + span). Of two records the later one counts.
void ct_amends_apply(const struct ct_amends *amends, struct ct_event *event, uint64_t span);
void ct_amends_free(struct ct_amends *amends);

#endif

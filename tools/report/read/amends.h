// SPDX-License-Identifier: Apache-2.0
// Corrections of events: AMEND records name an event by its thread and time, and come later in the
// trace than the event.
#ifndef CT_AMENDS_H
#define CT_AMENDS_H

#include <cutrace/format/format.h>

#include <stddef.h>

struct ct_amends {
    struct ct_amends_entry *entries;
    size_t count, capacity;
    int is_sorted;
};

// Stores what an AMEND record says: result, duration_ns and stack, as far as it has them. Its ids
// are those of the definitions.
void ct_amends_add(struct ct_amends *amends, const struct ct_event *record);
// To be called when all records were added, before the first event is corrected. Of two records of
// one time the one that was added later counts.
void ct_amends_sort(struct ct_amends *amends);
// Corrects an event. Its exact time is in [t_ns, t_ns + span). Most traces have no corrections: ask
// amends->count first.
void ct_amends_apply(const struct ct_amends *amends, struct ct_event *event, uint64_t span);
void ct_amends_free(struct ct_amends *amends);

#endif

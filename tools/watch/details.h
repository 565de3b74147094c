// SPDX-License-Identifier: Apache-2.0
// Reads the details of a process from its trace and journal, as cutrace-report would.
#ifndef CT_WATCH_DETAILS_H
#define CT_WATCH_DETAILS_H

#include "base/error.h"
#include "watch/model.h"

struct ct_watch_reading {
    const char *name;    // of the trace, for messages
    int trace, journal;  // descriptors, which are taken over; -1: there is none
    uint64_t trace_id;   // that the files must have
    uint64_t now_ns;     // CLOCK_MONOTONIC, if the process still records; else 0
    uint64_t since_ns;   // of what call sites have gained; 0: as far back as the trend goes
    uint64_t fresh_from; // incidents with an earlier first event are not fresh
    // Those that were read before, for the verdict, which is not found again if nothing failed
    // since; or NULL.
    const struct ct_watch_details *before;
};

// Returns 0, or -1 with the error set. `d` is overwritten.
int ct_watch_details_read(struct ct_watch_details *d, const struct ct_watch_reading *reading,
                          struct ct_error *error);

#endif

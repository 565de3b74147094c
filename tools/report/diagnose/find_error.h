// SPDX-License-Identifier: Apache-2.0
// The failed allocation of a trace that an error message is about.
#ifndef CT_FIND_ERROR_H
#define CT_FIND_ERROR_H

#include "analyze/incidents.h"
#include "text/facts.h"

struct ct_found_error {
    // The head of the incident of which a call fits; NULL: none does.
    const struct ct_oom_event *event;
    int by_size, by_device, by_free; // what the message has, and fits
    size_t fitting;                  // how many incidents fit as well
};

// `message` may be NULL: the text has none. Of several that fit as well, the last one.
struct ct_found_error ct_find_error(const struct ct_incidents *n,
                                    const struct ct_text_fact *message);

#endif

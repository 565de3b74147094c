// SPDX-License-Identifier: Apache-2.0
// Versions, flags, variables of the environment and options of the recording that differ between
// two traces.
#ifndef CT_FACT_DIFFERENCES_H
#define CT_FACT_DIFFERENCES_H

#include "read/definitions.h"

enum ct_fact_kind {
    CT_FACT_VERSION,
    CT_FACT_FLAG,
    CT_FACT_ENVIRONMENT,
    CT_FACT_OPTION, // of the recording
    CT_FACT_DEVICE,
    CT_FACT_KINDS,
};

// Texts of the traces: to be printed only through ct_utf8_print_sanitized. NULL: the trace does not
// have it.
struct ct_fact_difference {
    enum ct_fact_kind kind;
    struct ct_string name;
    const struct ct_string *value[2];
};

struct ct_fact_differences {
    struct ct_fact_difference *list; // by kind, then by name
    size_t count, room;
};

// All but those of devices.
void ct_fact_differences_find(struct ct_fact_differences *f, const struct ct_definitions *a,
                              const struct ct_definitions *b);
// Those of a device (an index) on each side.
void ct_fact_differences_find_device(struct ct_fact_differences *f, const struct ct_definitions *a,
                                     int device_a, const struct ct_definitions *b, int device_b);
const char *ct_fact_kind_name(enum ct_fact_kind kind);
void ct_fact_differences_free(struct ct_fact_differences *f);

#endif

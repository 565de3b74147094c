// SPDX-License-Identifier: Apache-2.0
// Metrics as text: the lines that are written, and the labels that are read.
//
// Lines are as OpenMetrics 1.0 has them or as Prometheus's older text format (0.0.4) does.
// Both differ in how a family is introduced, not in its samples.
#ifndef CT_OPENMETRICS_H
#define CT_OPENMETRICS_H

#include <stdint.h>
#include <stdio.h>

struct ct_openmetrics {
    FILE *out;
    int is_prometheus; // 0.0.4: no units, no type `info`, and no end
    const char *time;  // after each value: " SECONDS", or ""
};

// Texts are words of this program. A metric without a unit has "".
struct ct_openmetrics_family {
    const char *name, *unit, *type, *help;
};

// Introduces the samples of a family, which follow.
void ct_openmetrics_begin(const struct ct_openmetrics *m, const struct ct_openmetrics_family *f);
// The name of its samples: with the unit, and the ending of its type.
void ct_openmetrics_put_name(const struct ct_openmetrics *m, const struct ct_openmetrics_family *f);
// A text within "...": it has no control characters any more.
void ct_openmetrics_put_text(const struct ct_openmetrics *m, const char *text);
// " VALUE" and the end of the line.
void ct_openmetrics_put_number(const struct ct_openmetrics *m, uint64_t value);
// " SECONDS", of nanoseconds since 1970 or of a time that passed, and the end of the line.
void ct_openmetrics_put_seconds(const struct ct_openmetrics *m, uint64_t ns);
void ct_openmetrics_end(const struct ct_openmetrics *m);

// ---- labels -------------------------------------------------------------------------------------

// Labels of a sample of a Prometheus page: name{label="value",...} 1

enum { CT_METRIC_LABEL_DIGITS = 12 };

// Copies the whole number that a label has as its value; "" if it has none. `labels` begins after
// the brace.
void ct_metric_label_copy(const char *labels, const char *label,
                          char to[CT_METRIC_LABEL_DIGITS + 1]);

#endif

// SPDX-License-Identifier: Apache-2.0
// Labels of a sample of a Prometheus page: name{label="value",...} 1
#ifndef CT_METRIC_LABEL_H
#define CT_METRIC_LABEL_H

enum { CT_METRIC_LABEL_DIGITS = 12 };

// Copies the whole number that a label has as its value; "" if it has none. `labels` begins after
// the brace.
void ct_metric_label_copy(const char *labels, const char *label,
                          char to[CT_METRIC_LABEL_DIGITS + 1]);

#endif

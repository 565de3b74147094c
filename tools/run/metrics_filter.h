// SPDX-License-Identifier: Apache-2.0
// Keeps of a server's Prometheus page what a file for a bug report may have: the metrics of
// base/metrics.def, each as its name, the number of its engine, the labels of that table, if they
// are numbers, and its value. Everything else, which can name models, paths, hosts and adapters, is
// dropped.
#ifndef CT_METRICS_FILTER_H
#define CT_METRICS_FILTER_H

#include <stddef.h>

enum { CT_FILTER_LINE = 4096, CT_FILTER_SAMPLE = 300, CT_FILTER_KEPT = 1 << 16 };

struct ct_metrics_filter {
    char line[CT_FILTER_LINE]; // that is being read; of a longer one only the begin
    size_t line_length;
    int line_is_cut;
    char kept[CT_FILTER_KEPT]; // lines of samples, each with its end; more are dropped
    size_t kept_length;
};

void ct_metrics_filter_begin(struct ct_metrics_filter *f);
void ct_metrics_filter_add(struct ct_metrics_filter *f, const char *bytes, size_t n);
// Ends the last line.
void ct_metrics_filter_end(struct ct_metrics_filter *f);

#endif

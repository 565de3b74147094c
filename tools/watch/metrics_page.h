// SPDX-License-Identifier: Apache-2.0
// The answer to GET /metrics: all metrics of metrics.def, of one look.
#ifndef CT_WATCH_METRICS_PAGE_H
#define CT_WATCH_METRICS_PAGE_H

#include <stdio.h>

#include "watch/list.h"

// A process that has ended is told for so long, so that its last counts are scraped.
#define CT_WATCH_TOLD_NS UINT64_C(300000000000)

// `is_prometheus`: the text format 0.0.4; else OpenMetrics 1.0.
void ct_metrics_page_print(FILE *out, const struct ct_watch_list *l, int is_prometheus);

#endif

// SPDX-License-Identifier: Apache-2.0
// Verdicts on a server's metrics: what a trace of the device cannot show, as the KV cache is
// allocated once and its blocks are given out within it.
#ifndef CT_METRICS_VERDICTS_H
#define CT_METRICS_VERDICTS_H

#include "diagnose/verdicts.h"
#include "read/facts.h"
#include "text/metrics.h"

// Adds none where the metrics show nothing. `facts`: of the trace of the server, which say what its
// settings are.
void ct_metrics_verdicts_find(const struct ct_metrics *m, const struct ct_facts *facts,
                              struct ct_verdicts *v);
// What the requests wanted of the KV cache while it was full.
struct ct_metrics_demand {
    int64_t share; // of it that a request takes, in millionths; 0: it was never full
    int64_t most;  // requests at once, running and waiting
    int is_whole;  // the share is a request's when it ends; else one grows beyond it
};

struct ct_metrics_demand ct_metrics_verdicts_demand(const struct ct_metrics *m);
// The hit rate of the prefix cache in a part of the scrapes, in millionths; -1: not known.
int64_t ct_metrics_verdicts_hit_rate(const struct ct_metrics *m, uint32_t from, uint32_t to);

#endif

// SPDX-License-Identifier: Apache-2.0
// A server's metrics over time: scrapes of its Prometheus page one after the other, each after a
// line "# scraped SECONDS" (since 1970, with a fraction). Memory is bounded: where there are more
// scrapes than are kept, neighbours become one.
#ifndef CT_METRICS_H
#define CT_METRICS_H

#include <stdint.h>
#include <stdio.h>

enum ct_metric {
    CT_METRIC_USAGE, // of the KV cache, 0 to 1
    CT_METRIC_RUNNING,
    CT_METRIC_WAITING,
    CT_METRIC_SWAPPED,
    CT_METRIC_PREEMPTIONS, // counters from here
    CT_METRIC_QUERIES,
    CT_METRIC_HITS,
    CT_METRIC_PROMPT_TOKENS, // of requests that have ended, as the next two
    CT_METRIC_OUTPUT_TOKENS,
    CT_METRIC_ENDED, // ... to here
    CT_METRIC_HIT_RATE,
    CT_METRIC_BLOCKS, // of the KV cache
    CT_METRIC_BLOCK_TOKENS,
    CT_METRIC_FIELDS
};

// Values in millionths; -1: the scrape did not have it. Of scrapes that became one: the largest.
struct ct_scrape {
    uint64_t utc_ns; // 0: not known
    int64_t values[CT_METRIC_FIELDS];
};

enum { CT_SCRAPES = 4096 };

struct ct_metrics {
    struct ct_scrape *list;
    uint32_t count;
    uint64_t scrapes; // in all
    uint32_t merged;  // so many became one
    uint32_t pending; // of the last one
};

// Reads a stream to its end. Returns 0, or -1 if it cannot be read.
int ct_metrics_read(FILE *in, struct ct_metrics *m);
void ct_metrics_free(struct ct_metrics *m);
// The largest value of a field, and where it was first (NULL: not wanted); -1: no scrape has it.
int64_t ct_metrics_max(const struct ct_metrics *m, enum ct_metric field, uint32_t *at);
// By how much a counter grew between two scrapes; a restart of the server begins at 0. -1: not
// known.
int64_t ct_metrics_growth(const struct ct_metrics *m, enum ct_metric field, uint32_t from,
                          uint32_t to);

#endif

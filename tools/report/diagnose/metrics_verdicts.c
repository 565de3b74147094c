// SPDX-License-Identifier: Apache-2.0
#include "diagnose/metrics_verdicts.h"

#include <inttypes.h>

#define MILLION 1000000
#define FULL (MILLION * 9 / 10)

static double percent(int64_t millionths) {
    return (double)millionths / 10000;
}

int64_t ct_metrics_verdicts_hit_rate(const struct ct_metrics *m, uint32_t from, uint32_t to) {
    const int64_t queries = ct_metrics_growth(m, CT_METRIC_QUERIES, from, to),
                  hits = ct_metrics_growth(m, CT_METRIC_HITS, from, to);
    if (queries > 0 && hits >= 0)
        return (int64_t)((__int128)hits * MILLION / queries);
    for (uint32_t i = to < m->count ? to : m->count; i-- > from;)
        if (m->list[i].values[CT_METRIC_HIT_RATE] >= 0)
            return m->list[i].values[CT_METRIC_HIT_RATE];
    return -1;
}

static void judge_preemption(const struct ct_metrics *m, struct ct_verdicts *l) {
    const int64_t count = ct_metrics_growth(m, CT_METRIC_PREEMPTIONS, 0, m->count) / MILLION;
    const int64_t usage = ct_metrics_max(m, CT_METRIC_USAGE, NULL),
                  waiting = ct_metrics_max(m, CT_METRIC_WAITING, NULL);
    if (count < 1)
        return;
    struct ct_verdict *v = ct_verdicts_add(
        l, CT_SCENARIO_PREEMPTION, 0.95, -1,
        "requests were preempted, because the KV cache was full: served, but slowly");
    (void)ct_verdict_add_text(
        v, "the counter of preemptions grew by %" PRId64 " in %" PRIu64 " scrapes", count,
        m->scrapes);
    if (usage >= 0)
        (void)ct_verdict_add_text(v, "at most %.1f %% of the KV cache were in use", percent(usage));
    if (waiting >= 0)
        (void)ct_verdict_add_text(v, "at most %" PRId64 " requests waited", waiting / MILLION);
    ct_advice_set(ct_verdict_add_advice(v, "let fewer requests run at once, or give the KV cache "
                                           "more memory"),
                  "--max-num-seqs", NULL, NULL, "vLLM 0.1 and later");
}

static void judge_prefix_cache(const struct ct_metrics *m, struct ct_verdicts *l) {
    const uint32_t half = m->count / 2;
    const int64_t before = ct_metrics_verdicts_hit_rate(m, 0, half),
                  after = ct_metrics_verdicts_hit_rate(m, half, m->count);
    uint32_t full = 0;
    for (uint32_t i = half; i < m->count; i++)
        full += m->list[i].values[CT_METRIC_USAGE] >= FULL;
    if (before <= 0 || after < 0 || after >= before / 2 || full * 2 < m->count - half)
        return;
    struct ct_verdict *v =
        ct_verdicts_add(l, CT_SCENARIO_PREFIX_CACHE_PRESSURE, 0.75, -1,
                        "the KV cache was full, and the prefix cache found less and less in it");
    (void)ct_verdict_add_text(v, "its hit rate fell from %.1f to %.1f %%", percent(before),
                              percent(after));
    (void)ct_verdict_add_text(
        v, "%" PRIu32 " of the last %" PRIu32 " scrapes have 90 %% of the cache in use", full,
        m->count - half);
    (void)ct_verdict_add_advice(v,
                                "give the KV cache more memory, or send requests that begin alike "
                                "to the same server");
    ct_verdict_set_refuted_by(v, "prompts that begin less alike than before");
}

void ct_metrics_verdicts_find(const struct ct_metrics *m, struct ct_verdicts *v) {
    judge_preemption(m, v);
    judge_prefix_cache(m, v);
    ct_verdicts_sort(v);
}

// SPDX-License-Identifier: Apache-2.0
#include "diagnose/metrics_verdicts.h"

#include <inttypes.h>
#include <stdio.h>

#include "diagnose/kv_arithmetic.h"
#include "diagnose/rules.h"
#include "diagnose/server_settings.h"

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

// ---- preemption ---------------------------------------------------------------------------------

// The share of the cache that a request has when it ends, by the mean length of those that have
// ended. 0: not known.
static int64_t find_whole_share(const struct ct_metrics *m) {
    const int64_t ended = ct_metrics_growth(m, CT_METRIC_ENDED, 0, m->count) / MILLION,
                  prompts = ct_metrics_growth(m, CT_METRIC_PROMPT_TOKENS, 0, m->count) / MILLION,
                  outputs = ct_metrics_growth(m, CT_METRIC_OUTPUT_TOKENS, 0, m->count) / MILLION,
                  blocks = ct_metrics_max(m, CT_METRIC_BLOCKS, NULL) / MILLION - 1, // one is empty
        block_tokens = ct_metrics_max(m, CT_METRIC_BLOCK_TOKENS, NULL) / MILLION;
    if (ended < 1 || prompts < 1 || outputs < 1 || blocks < 1 || block_tokens < 1)
        return 0;
    const uint64_t tokens = (uint64_t)((prompts + outputs + ended - 1) / ended),
                   taken = ct_kv_blocks_of(tokens, (uint64_t)block_tokens);
    return taken < (uint64_t)blocks ? (int64_t)taken * MILLION / blocks : MILLION;
}

struct ct_metrics_demand ct_metrics_verdicts_demand(const struct ct_metrics *m) {
    const int64_t requests = INT64_C(1) << 20; // no server has more at once
    struct ct_metrics_demand d = {0};
    for (uint32_t i = 0; i < m->count; i++) {
        const int64_t *values = m->list[i].values, usage = values[CT_METRIC_USAGE],
                      running = values[CT_METRIC_RUNNING] / MILLION,
                      waiting = values[CT_METRIC_WAITING] / MILLION;
        if (running < 1 || running > requests || waiting > requests)
            continue;
        const int64_t all = running + (waiting > 0 ? waiting : 0);
        d.most = all > d.most ? all : d.most;
        if (usage >= FULL && usage <= MILLION && usage / running > d.share)
            d.share = usage / running;
    }
    const int64_t whole = d.share ? find_whole_share(m) : 0;
    d.is_whole = whole > 0;
    d.share = whole > d.share ? whole : d.share;
    return d;
}

static void advise_fewer(const struct ct_metrics_demand *d, const struct ct_facts *facts,
                         struct ct_verdict *v) {
    const struct ct_setting s = ct_server_settings_find(facts, NULL, CT_TEXT_FLAG_MAX_NUM_SEQS);
    const int64_t fit = d->share ? MILLION / d->share : 0;
    char to[24] = "";
    struct ct_advice *a;
    if (fit > 0 && d->is_whole) {
        (void)snprintf(to, sizeof to, "%" PRId64, fit);
        a = ct_verdict_add_advice(v,
                                  "let fewer requests run at once, because each takes %.1f %% of "
                                  "the cache until it ends, so that %" PRId64 " of them fit",
                                  percent(d->share), fit);
    } else if (fit > 0)
        a = ct_verdict_add_advice(v,
                                  "let fewer than %" PRId64 " requests run at once, because each "
                                  "had up to %.1f %% of the full cache, and takes more until it "
                                  "ends",
                                  fit, percent(d->share));
    else
        a = ct_verdict_add_advice(v, "let fewer requests run at once; how many fit is not known, "
                                     "because no scrape has a full cache");
    ct_advice_set(a, "--max-num-seqs", s.text, to, NULL);
}

// The setting that decides the size of the cache: its bytes, where they are set.
static void advise_larger(const struct ct_metrics_demand *d, const struct ct_facts *facts,
                          struct ct_verdict *v) {
    const struct ct_setting kv = ct_server_settings_find(facts, NULL,
                                                         CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES),
                            util = ct_server_settings_find(facts, NULL,
                                                           CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION);
    const int64_t wanted = d->share * d->most, now = kv.number / MILLION, mib = INT64_C(1) << 20;
    const int by_size = now > 0 && now <= INT64_C(1) << 50;
    char to[24] = "";
    struct ct_advice *a;
    if (wanted <= MILLION)
        a = ct_verdict_add_advice(v, "or give the KV cache more memory; how much is not known");
    else
        a = ct_verdict_add_advice(v,
                                  "or give the KV cache more memory, because %" PRId64
                                  " requests wanted %s%.1f times as much",
                                  d->most, d->is_whole ? "" : "more than ",
                                  (double)wanted / MILLION);
    if (by_size && d->is_whole && wanted > MILLION) {
        const __int128 bytes = (__int128)now * wanted / MILLION + mib;
        (void)snprintf(to, sizeof to, "%" PRId64, (int64_t)(bytes / mib * mib));
    }
    if (by_size)
        ct_advice_set(a, "--kv-cache-memory-bytes", kv.text, to, "vLLM 0.10.2 and later");
    else
        ct_advice_set(a, "--gpu-memory-utilization", util.text, NULL, NULL);
}

// A share in millionths as a figure of per cent; one that is not known stays so.
static int64_t in_percent(int64_t share) {
    return share < 0 ? -1 : share < INT64_MAX / 100 ? share * 100 : INT64_MAX;
}

static struct ct_rule_source make_source(struct ct_figures *n, struct ct_verdicts *to) {
    ct_figures_clear(n);
    return (struct ct_rule_source){.to = to, .device = -1, .figures = n};
}

static void judge_preemption(const struct ct_metrics *m, const struct ct_facts *facts,
                             struct ct_verdicts *l) {
    const struct ct_metrics_demand demand = ct_metrics_verdicts_demand(m);
    const int64_t usage = ct_metrics_max(m, CT_METRIC_USAGE, NULL),
                  waiting = ct_metrics_max(m, CT_METRIC_WAITING, NULL);
    struct ct_figures n;
    const struct ct_rule_source s = make_source(&n, l);
    n.count = ct_metrics_growth(m, CT_METRIC_PREEMPTIONS, 0, m->count) / MILLION;
    n.scrapes = ct_figure(m->scrapes);
    n.usage = in_percent(usage);
    n.waiting = waiting >= 0 ? waiting / MILLION : -1;
    if (n.count < 1)
        return;
    struct ct_verdict *v = ct_rule_add(&s, CT_RULE_METRICS_PREEMPTION);
    advise_fewer(&demand, facts, v);
    advise_larger(&demand, facts, v);
}

// ---- the prefix cache ---------------------------------------------------------------------------

static void judge_prefix_cache(const struct ct_metrics *m, struct ct_verdicts *l) {
    const uint32_t half = m->count / 2;
    const int64_t before = ct_metrics_verdicts_hit_rate(m, 0, half),
                  after = ct_metrics_verdicts_hit_rate(m, half, m->count);
    struct ct_figures n;
    const struct ct_rule_source s = make_source(&n, l);
    n.count = 0;
    for (uint32_t i = half; i < m->count; i++)
        n.count += m->list[i].values[CT_METRIC_USAGE] >= FULL;
    n.scrapes = m->count - half;
    n.first_hits = in_percent(before);
    n.hits = in_percent(after);
    if (before > 0 && after >= 0 && after < before / 2 && n.count * 2 >= n.scrapes)
        (void)ct_rule_add(&s, CT_RULE_METRICS_PREFIX_CACHE);
}

void ct_metrics_verdicts_find(const struct ct_metrics *m, const struct ct_facts *facts,
                              struct ct_verdicts *v) {
    judge_preemption(m, facts, v);
    judge_prefix_cache(m, v);
    ct_verdicts_sort(v);
}

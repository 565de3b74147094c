// SPDX-License-Identifier: Apache-2.0
#include "diagnose/vllm_budget.h"

#include "diagnose/kv_arithmetic.h"
#include "diagnose/text_start.h"

#define MILLION 1000000
#define MIB (INT64_C(1) << 20)
#define MOST (INT64_C(1) << 50)
#define MOST_TOKENS (INT64_C(1) << 40)

// A block of the cache is no larger where its size is not known: 2 x 80 layers x 64 heads x 128 x 2
// bytes x 16 tokens are 40 MiB.
static const int64_t largest_block = 64 * MIB;
// How far vLLM's readings and the trace may be apart: memory of libraries and modules that came
// between two readings. Older versions add up the weights, the peak and what is not PyTorch's in
// place of what they read, and so leave out some buffers.
static const int64_t reading_error = 32 * MIB, reading_error_of_old = 256 * MIB;

uint64_t ct_vllm_budget_pieces(uint64_t bytes, enum ct_vllm_pieces pieces) {
    return bytes + bytes / 8 * (unsigned)pieces;
}

int64_t ct_vllm_budget_requested(int64_t capacity, int64_t millionths) {
    return (int64_t)(((__int128)capacity * millionths + MILLION - 1) / MILLION);
}

int64_t ct_vllm_budget_request_bytes(const struct ct_vllm_budget *b, int64_t tokens) {
    if (!b->block || !b->block_tokens || tokens <= 0 || tokens > MOST_TOKENS)
        return 0;
    const __int128 bytes =
        (__int128)ct_kv_blocks_of((uint64_t)tokens, (uint64_t)b->block_tokens) * b->block;
    return bytes < MOST ? (int64_t)bytes : MOST;
}

static int64_t whole(const struct ct_setting *s) {
    return s->number > 0 ? s->number / MILLION : 0;
}

static int give_up(struct ct_vllm_budget *b, const char *why) {
    b->why = why;
    return -1;
}

// ---- the settings -------------------------------------------------------------------------------

static void find_settings(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q) {
    static const enum ct_text_flag flags[] = {
        CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES,
        CT_TEXT_FLAG_MAX_MODEL_LEN, CT_TEXT_FLAG_MAX_NUM_SEQS, CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS};
    struct ct_setting *const to[] = {&b->utilization, &b->cache_size, &b->max_len, &b->requests,
                                     &b->step_tokens};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *to[i] = ct_server_settings_find(q->facts, q->log, flags[i]);
    b->not_given = q->log ? "neither the trace nor the log has it"
                          : "the trace does not have it (--log FILE may)";
    if (b->utilization.number > MILLION)
        b->utilization.number = 0;
}

// ---- the cache ----------------------------------------------------------------------------------

// Sets how many tokens the cache has, by vLLM's log or its metrics.
static void find_tokens(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q) {
    struct ct_text_start start = {0};
    int64_t blocks = 0;
    if (q->log)
        ct_text_start_find(q->log, &start);
    const struct ct_setting set =
        ct_server_settings_find(q->facts, q->log, CT_TEXT_FLAG_BLOCK_SIZE);
    if (q->metrics) {
        blocks = ct_metrics_max(q->metrics, CT_METRIC_BLOCKS, NULL) / MILLION;
        b->block_tokens = ct_metrics_max(q->metrics, CT_METRIC_BLOCK_TOKENS, NULL) / MILLION;
    }
    if (blocks > 0 && b->block_tokens > 0 && blocks < MOST_TOKENS / b->block_tokens) {
        b->tokens = blocks * b->block_tokens;
        b->tokens_source = "the metrics";
    } else if (start.kv_tokens.known && start.kv_tokens.value > 0) {
        b->tokens = start.kv_tokens.value;
        b->block_tokens = start.block_tokens.known ? start.block_tokens.value : whole(&set);
        b->tokens_source = "the log";
    }
    // (16 is the size of nearly all backends; one that does not divide the tokens is wrong)
    if (b->tokens && (b->block_tokens <= 0 || b->tokens % b->block_tokens))
        b->block_tokens = b->tokens % 16 ? 1 : 16;
    if (!b->tokens || b->tokens > MOST_TOKENS || b->tokens > b->cache) {
        b->tokens = b->block_tokens = 0;
        return;
    }
    // PyTorch's block can be larger than the cache by what it does not split off: rounded up.
    const int64_t count = b->tokens / b->block_tokens;
    b->block = (b->cache + count - 1) / count;
}

// Whether the budget of the utilization and the cache agree with what vLLM read.
static void compare(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q,
                    int64_t budget) {
    const struct ct_server_memory *m = q->memory;
    const int is_old = ct_facts_has_version(q->facts, "vllm", "0.26") == 0;
    const int64_t taken = (int64_t)m->start_free - (int64_t)m->behind_free,
                  error = (is_old ? reading_error_of_old : reading_error) +
                          (b->block ? b->block : largest_block),
                  rest = budget - taken - b->step - b->cache;
    if (!m->start_known || !m->behind_known || !b->has_step)
        return;
    b->is_compared = 1;
    b->graphs = m->has_trial && rest > 0 ? rest : 0;
    if (rest >= -error && (rest <= error || m->has_trial))
        return;
    b->by_utilization = 0;
    b->why_not_by_utilization =
        "the KV cache is not what the utilization leaves after what was read";
}

static void find_besides(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q) {
    const int64_t budget = ct_vllm_budget_requested(b->recorded_capacity, b->utilization.number);
    b->by_utilization = 1;
    if (b->cache_size.source != CT_SETTING_UNKNOWN)
        b->why_not_by_utilization = "the size of the KV cache is set";
    else if (b->utilization.number <= 0)
        b->why_not_by_utilization = b->not_given;
    else if (budget <= b->cache)
        b->why_not_by_utilization = "the KV cache is larger than the budget";
    if (b->why_not_by_utilization)
        b->by_utilization = 0;
    else {
        b->besides = budget - b->cache;
        compare(b, q, budget);
    }
}

// ---- what serving needs -------------------------------------------------------------------------

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static const char *find_why_no_need(const struct ct_vllm_budget *b,
                                    const struct ct_server_memory *m) {
    if (!b->has_step)
        return "the trace has no profile run";
    if (m->slept)
        return "the server slept, and what a step needs was not looked at beside that";
    if (!m->stays_known || !m->serves || (int64_t)m->stays < b->cache)
        return "the trace has no step of serving, so that it is not known what one needs beside "
               "the cache: record the server until it has answered requests";
    return m->since.untracked_known
               ? NULL
               : "the free memory of the device was not read while it served, so that it is not "
                 "known what is untracked";
}

// While it serves, beside the cache. A step of the largest size comes sooner or later, whether or
// not the recorded run had one. On the recorded device other processes hold what they held.
static void find_need(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q) {
    const struct ct_server_memory *m = q->memory;
    const struct ct_device_need *since = &m->since;
    const uint64_t run[2] = {q->capacity ? since->least.bytes : since->least_with_others,
                             q->capacity ? since->as_recorded.bytes
                                         : since->as_recorded_with_others},
                   outside[2] = {q->capacity ? since->untracked : since->outside_least_with_others,
                                 q->capacity ? since->outside : since->outside_with_others};
    b->why_no_need = find_why_no_need(b, m);
    b->fails_as_recorded =
        !q->capacity && since->failed && since->least_with_others > q->recorded_capacity;
    if (b->why_no_need)
        return;
    b->has_need = 1;
    b->stays = (int64_t)m->stays - b->cache;
    b->outside = (int64_t)outside[1];
    b->others = q->capacity ? 0 : (int64_t)since->others;
    const int64_t low = b->stays + (int64_t)outside[0] + b->step,
                  high = b->stays + (int64_t)outside[1] +
                         (int64_t)ct_vllm_budget_pieces((uint64_t)b->step, CT_VLLM_PIECES_ANY);
    b->need_low = larger(low, (int64_t)run[0] - b->cache);
    b->need_high = larger(high, (int64_t)run[1] - b->cache);
    b->need_by_run = b->need_high > high;
    // What would have come behind the request that failed is not known: as much again.
    if (b->need_by_run && since->failed && since->failed_bytes < (uint64_t)MOST)
        b->need_high += (int64_t)since->failed_bytes;
}

// The cache that the recorded settings make on the asked device.
static void find_cache_there(struct ct_vllm_budget *b) {
    const int64_t block = b->block ? b->block : largest_block;
    if (b->capacity == b->recorded_capacity || b->cache_size.source != CT_SETTING_UNKNOWN) {
        b->has_cache_there = 1;
        b->cache_low = b->cache_high = b->cache;
    } else if (b->by_utilization) {
        const int64_t budget = ct_vllm_budget_requested(b->capacity, b->utilization.number);
        b->has_cache_there = 1;
        b->cache_low = budget - b->besides;
        b->cache_high = b->cache_low + block;
    }
}

// ---- all of it ----------------------------------------------------------------------------------

static int begin(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q) {
    const struct ct_server_memory *m = q->memory;
    const uint64_t most = (uint64_t)MOST, asked = q->capacity ? q->capacity : q->recorded_capacity,
                   figures[] = {asked,
                                q->recorded_capacity,
                                m->stays,
                                m->buffers_bytes,
                                m->sampler_bytes,
                                m->start_free,
                                m->behind_free,
                                m->since.as_recorded_with_others,
                                m->since.as_recorded.bytes,
                                m->since.outside_with_others,
                                m->since.others};
    if (!m->has_cache)
        return give_up(b, "the trace has no allocation of a KV cache");
    if (!q->recorded_capacity)
        return give_up(b, "the capacity of the recorded device is not in the trace");
    int is_possible =
        m->cache_bytes <= q->recorded_capacity && m->profile_bytes <= q->recorded_capacity;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        is_possible &= figures[i] <= most;
    if (!is_possible)
        return give_up(b, "the figures of the trace contradict each other");
    b->recorded_capacity = (int64_t)q->recorded_capacity;
    b->capacity = (int64_t)asked;
    b->cache = (int64_t)m->cache_bytes;
    b->has_step = m->has_profile;
    b->step = (int64_t)m->profile_bytes;
    b->buffers = (int64_t)m->buffers_bytes;
    b->sampler = (int64_t)m->sampler_bytes;
    return 0;
}

void ct_vllm_budget_find(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *q) {
    const struct ct_server_memory *m = q->memory;
    *b = (struct ct_vllm_budget){.start_used = -1};
    if (begin(b, q))
        return;
    b->known = 1;
    find_settings(b, q);
    find_tokens(b, q);
    find_besides(b, q);
    find_need(b, q);
    find_cache_there(b);
    if (m->start_known && m->start_free < q->recorded_capacity)
        b->start_used = (int64_t)(q->recorded_capacity - m->start_free);
}

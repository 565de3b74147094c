// SPDX-License-Identifier: Apache-2.0
// vLLM's arithmetic of its memory, with the figures of a recorded run, on its device or on one of
// another size:
//
//   budget    = gpu_memory_utilization x capacity
//   KV cache  = budget - what is taken besides: weights and all that stays, the activations of the
//               profile run, from 0.21 on an estimate of CUDA graphs
//
// What is taken besides is the recorded budget less the recorded cache; where the trace has vLLM's
// own readings, it is compared with them. Source: vllm/v1/worker/gpu_worker.py,
// determine_available_memory, and vllm/utils/mem_utils.py, memory_profiling, of 0.33.0.
#ifndef CT_VLLM_BUDGET_H
#define CT_VLLM_BUDGET_H

#include "analyze/server_memory.h"
#include "diagnose/server_settings.h"
#include "text/metrics.h"

struct ct_vllm_budget_request {
    const struct ct_server_memory *memory;
    uint64_t recorded_capacity; // bytes of the recorded device
    uint64_t capacity;          // of another one that is asked about; 0: the recorded one, on which
                                // other processes hold what they held
    const struct ct_facts *facts;
    const struct ct_text_facts *log;  // NULL: there is none
    const struct ct_metrics *metrics; // NULL: there are none
};

// Bytes, unless something else is said. All are below 2^50.
struct ct_vllm_budget {
    int known; // else `why` says why not
    const char *why;
    const char *not_given; // why a setting is not known
    struct ct_setting utilization, cache_size, max_len, requests, step_tokens;
    int64_t recorded_capacity, capacity;
    // The recorded cache; its tokens and those of a block, 0: not known.
    int64_t cache, tokens, block_tokens, block;
    const char *tokens_source;
    // By utilization: that the cache is the rest of a budget. `besides` is what else it has, up to
    // a block less.
    int by_utilization;
    const char *why_not_by_utilization; // NULL where it is
    int64_t besides;
    int is_compared; // with vLLM's readings
    int64_t graphs;  // what these leave for vLLM's estimate of CUDA graphs
    int64_t step;    // activations of the profile run
    int has_step;
    int64_t buffers, sampler; // of the runner, with block tables; of the sampler
    int64_t start_used;       // by this process before it loads; -1: not known
    // What the process needs besides the cache while it serves. `low`: as much is needed for the
    // largest step; `high`: with what requests leave in pieces.
    // `outside`: not in allocations; of other processes, too, where they are counted.
    int has_need, need_by_run; // by_run: the recorded run itself needed as much
    const char *why_no_need;
    int64_t stays, outside, need_low, need_high;
    int64_t others;        // part of `outside`: of other processes, at most
    int fails_as_recorded; // with its cache it had no room on the recorded device
    // The cache on the asked device, with the recorded settings: at least, and at most.
    int has_cache_there;
    int64_t cache_low, cache_high;
};

void ct_vllm_budget_find(struct ct_vllm_budget *b, const struct ct_vllm_budget_request *request);
// What the activations of a step take of PyTorch's pool, if those of the profile run are so large:
// another order of requests leaves it in pieces. There is no bound; these are what runs needed.
enum ct_vllm_pieces {
    CT_VLLM_PIECES_ONE_STEP = 1, // eighths of it more: steps like that of the profile run
    CT_VLLM_PIECES_CHANGING = 4, // the same, of steps of changing numbers of tokens
    CT_VLLM_PIECES_ANY = 8,      // the same, of prompts of any lengths in any order
};
uint64_t ct_vllm_budget_pieces(uint64_t bytes, enum ct_vllm_pieces pieces);
// What one request of a length takes of the cache; 0: not known.
int64_t ct_vllm_budget_request_bytes(const struct ct_vllm_budget *b, int64_t tokens);
// The budget of a utilization in millionths, as vLLM rounds it.
int64_t ct_vllm_budget_requested(int64_t capacity, int64_t millionths);

#endif

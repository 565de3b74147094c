// SPDX-License-Identifier: Apache-2.0
// How what a vLLM server takes grows with one of its settings, by two recordings of the same server
// that differ in that setting alone.
//
// Activations and buffers are sums of fixed parts and parts in proportion, and the peak is the
// largest of such sums. So it is convex and grows at most in proportion: beyond the higher of two
// recorded values the line through both is the least, and the proportion the most; between them the
// line is the most. (CUDA graphs are made for a list of sizes, so that they only grow.) Each point
// is uncertain by what PyTorch rounds blocks to, and by another order of blocks.
#ifndef CT_VLLM_SLOPE_H
#define CT_VLLM_SLOPE_H

#include "diagnose/vllm_budget.h"
#include "read/definitions.h"

enum { CT_VLLM_SLOPE_TEXT = 200 };

struct ct_vllm_point {
    int64_t at, bytes;
    int64_t graphs; // part of it: grows by steps, up to a bound
};

struct ct_vllm_slope {
    int known;                    // else `why` says why the second recording tells nothing
    char why[CT_VLLM_SLOPE_TEXT]; // (has no text of a trace)
    const char *flag;             // the setting that differs; NULL: none is found
    int is_step;                  // it is max_num_batched_tokens
    struct ct_vllm_point now, other;
    int64_t error; // of each point, in bytes
};

// One recording.
struct ct_vllm_recording {
    const struct ct_vllm_budget *budget;
    const struct ct_server_memory *memory;
    const struct ct_definitions *definitions;
    int device; // index
    const struct ct_facts *facts;
    const struct ct_text_facts *log; // NULL: there is none
};

// What grows with a setting: with the tokens of a step its activations, with the number of requests
// buffers, the sampler and graphs, too.
int64_t ct_vllm_slope_bytes(const struct ct_vllm_budget *b, int is_step);
void ct_vllm_slope_find(struct ct_vllm_slope *s, const struct ct_vllm_recording *now,
                        const struct ct_vllm_recording *other);
// By how many bytes it takes more at a value than as recorded, at least and at most. May be
// negative.
int64_t ct_vllm_slope_least(const struct ct_vllm_slope *s, int64_t at);
int64_t ct_vllm_slope_most(const struct ct_vllm_slope *s, int64_t at);

#endif

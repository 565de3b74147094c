// SPDX-License-Identifier: Apache-2.0
// What a server's log says of its start: vLLM's own figures, each with its line.
#ifndef CT_TEXT_START_H
#define CT_TEXT_START_H

#include "text/facts.h"

struct ct_text_figure {
    int known;
    int64_t value; // bytes, tokens, or millionths
    uint64_t line;
};

struct ct_text_start {
    struct ct_text_figure weights, activation, non_torch, graphs, graphs_estimated;
    struct ct_text_figure kv_bytes; // may be negative
    struct ct_text_figure kv_tokens, kv_blocks, max_len, concurrency;
    struct ct_text_figure utilization, budget, total, free;
    struct ct_text_figure token_bytes;  // kv_bytes / kv_tokens
    struct ct_text_figure block_tokens; // by a setting, or tokens / blocks of the log
};

void ct_text_start_find(const struct ct_text_facts *f, struct ct_text_start *s);

#endif

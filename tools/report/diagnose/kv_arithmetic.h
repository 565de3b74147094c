// SPDX-License-Identifier: Apache-2.0
// The KV cache of a paged attention: blocks of requests, and what partly filled blocks waste. All
// results saturate at UINT64_MAX, and are 0 where blocks have no size.
#ifndef CT_KV_ARITHMETIC_H
#define CT_KV_ARITHMETIC_H

#include <stddef.h>
#include <stdint.h>

#include "text/facts.h"

// Blocks that a request of so many tokens takes.
uint64_t ct_kv_blocks_of(uint64_t tokens, uint64_t block_tokens);

struct ct_kv_waste {
    uint64_t block_tokens, requests;
    uint64_t tokens, blocks; // in use
    uint64_t empty_tokens;   // places in these blocks without a token
    uint64_t partly_blocks;  // blocks that are partly filled: at most one of each request
};

// Adds the requests of these lengths.
void ct_kv_waste_add(struct ct_kv_waste *w, const uint64_t *lengths, size_t count,
                     uint64_t block_tokens);
// Adds the requests of a list: "17,2048x10,33", numbers of tokens, x how many of them; after "/"
// the tokens of a block, in place of `block_tokens` (0: not known). Returns 0, or -1: it is no such
// list, or one of more than a million requests, or a block's tokens are not known.
int ct_kv_waste_add_list(struct ct_kv_waste *w, const char *list, uint64_t block_tokens);
// The empty share of the last block of a request, in millionths: 17 tokens in blocks of 16 are two,
// of which the second is 937500 empty.
uint64_t ct_kv_last_block_empty(uint64_t tokens, uint64_t block_tokens);

// Finds what partly filled blocks waste for a list of lengths (ct_kv_waste_add_list; NULL: those of
// the new requests in the scheduler's output that the log has), in blocks as the list or else the
// log says. Returns 0, or -1: the lengths or the size of a block are not known.
int ct_kv_waste_find(const struct ct_text_facts *f, const char *lengths, struct ct_kv_waste *w);

// Sizes that tell what a request was for: rows x vocabulary x bytes of an element, the row of a
// sampler's or of a log-probability's buffer.

struct ct_request_size {
    int64_t rows, vocabulary, bytes; // bytes: of an element
    int vocabulary_given;            // else it is a common one that fits
    int others_fit;                  // as far as the digits tell
};

// Finds how `tried` bytes, known to `step`, are `rows` x a vocabulary x an element. `vocabulary`: 0
// if it is not known. Returns 0 if they are not.
int ct_request_size_find(int64_t tried, int64_t step, int64_t rows, int64_t vocabulary,
                         struct ct_request_size *found);

#endif

// SPDX-License-Identifier: Apache-2.0
// Sizes that tell what a request was for: rows x vocabulary x bytes of an element, the row of a
// sampler's or of a log-probability's buffer.
#ifndef CT_REQUEST_SIZE_H
#define CT_REQUEST_SIZE_H

#include <stdint.h>

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

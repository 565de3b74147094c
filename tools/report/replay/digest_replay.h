// SPDX-License-Identifier: Apache-2.0
// Makes the digest of each chunk anew, from its events, and compares.
#ifndef CT_DIGEST_REPLAY_H
#define CT_DIGEST_REPLAY_H

#include "read/trace.h"

struct ct_digest_checked {
    uint64_t digests; // how many were compared
    uint64_t partly;  // how many of these are without what is live, because that is not known there
};

// Compares all digests of a trace with what its events say. Adds those that disagree, or are
// damaged, to the damage of the trace's index. The trace is read from its beginning, and rewound.
struct ct_digest_checked ct_digest_replay_check(struct ct_trace *t);

#endif

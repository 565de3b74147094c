// SPDX-License-Identifier: Apache-2.0
// What the settings of PyTorch's allocator and the calls of a process mean for the figures of its
// pools. POOL.md has the rules.
#ifndef CT_TORCH_SETTINGS_H
#define CT_TORCH_SETTINGS_H

#include "read/trace.h"

// A text that says why PyTorch allocates memory without blocks, by the settings in the trace; NULL
// if it does not.
const char *ct_torch_settings_without_blocks(const struct ct_trace *t);
// Whether a request may be unable to use a free block that fits: other streams, blocks that a
// stream still uses, other pools.
int ct_torch_settings_limit_reuse(const struct ct_trace *t);
// Whether PyTorch may have served a request after a failed allocation without counting a retry.
int ct_torch_settings_hide_retries(const struct ct_trace *t);

#endif

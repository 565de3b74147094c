// SPDX-License-Identifier: Apache-2.0
// The line on stderr about a failed allocation. Pure functions; any thread.
#ifndef CT_WRITE_OOM_MESSAGE_H
#define CT_WRITE_OOM_MESSAGE_H

#include <stddef.h>

#include <cutrace/model/failures.h>

// What is known about an OOM: bytes of this moment, and texts. Unknown numbers are UINT64_MAX (the
// device: -1), unknown texts NULL or "". `tracked` and `untracked` are of this process;
// `unattributed` is untracked or of others; `earlier` failures are not described.
struct ct_oom {
    int device, by_pytorch;
    uint64_t bytes, free, total, tracked, in_flight, untracked, others, unattributed, earlier;
    const char *api, *caller, *path;
    const char *memory; // what was asked for; NULL: memory of the device
};

// An OOM of which nothing is known.
#define CT_OOM_UNKNOWN                                                              \
    {                                                                               \
        .device = -1, .bytes = UINT64_MAX, .free = UINT64_MAX, .total = UINT64_MAX, \
        .tracked = UINT64_MAX, .in_flight = UINT64_MAX, .untracked = UINT64_MAX,    \
        .others = UINT64_MAX, .unattributed = UINT64_MAX                            \
    }

// Writes the line, without the parts that are unknown; long texts are cut. Returns its length.
size_t ct_oom_message_format(const struct ct_oom *oom, char *out, size_t size);

#endif

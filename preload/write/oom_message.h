// SPDX-License-Identifier: Apache-2.0
// The line on stderr about a failed allocation. Pure functions; any thread.
#ifndef CT_WRITE_OOM_MESSAGE_H
#define CT_WRITE_OOM_MESSAGE_H

#include <stddef.h>

#include <cutrace/model/failures.h>

// What is known about an OOM: bytes, and texts. Unknown numbers are UINT64_MAX (the device: -1),
// unknown texts NULL or "". `tracked` and `process` are of this process, `free` and `total` of the
// device.
struct ct_oom {
    int device;
    uint64_t bytes, free, total, tracked, process;
    const char *api, *caller, *path;
    const char *memory; // what was asked for; NULL: memory of the device
};

// Writes the line, without the parts that are unknown; long texts are cut. Returns its length.
size_t ct_oom_message_format(const struct ct_oom *oom, char *out, size_t size);

#endif

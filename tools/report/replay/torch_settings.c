// SPDX-License-Identifier: Apache-2.0
// Reads the INFO pairs process.env.* and hook.*.
#include "replay/torch_settings.h"

#include <string.h>

static int contains(const struct ct_string *s, const char *part) {
    return s->length && memmem(s->at, s->length, part, strlen(part)) != NULL;
}

// Whether an INFO pair exists and, unless `part` is NULL, contains a text.
static int has_setting(const struct ct_trace *t, const char *key, const char *part) {
    const struct ct_string *s = ct_definitions_info(&t->definitions, key);
    return s && (!part || contains(s, part));
}

// Whether PyTorch's allocator has a setting. Older and newer versions of PyTorch read different
// variables.
static int has_allocator_setting(const struct ct_trace *t, const char *part) {
    return has_setting(t, "process.env.PYTORCH_CUDA_ALLOC_CONF", part) ||
           has_setting(t, "process.env.PYTORCH_ALLOC_CONF", part);
}

const char *ct_torch_settings_without_blocks(const struct ct_trace *t) {
    if (has_setting(t, "process.env.PYTORCH_NO_CUDA_MEMORY_CACHING", NULL))
        return "PYTORCH_NO_CUDA_MEMORY_CACHING: each tensor is an allocation of the driver's";
    if (has_allocator_setting(t, "backend:cudaMallocAsync"))
        return "backend:cudaMallocAsync: blocks are the driver's stream-ordered allocations";
    return NULL;
}

// Whether a hook was called whose INFO key begins with a text.
static int was_called(const struct ct_trace *t, const char *hook) {
    const size_t length = strlen(hook);
    for (size_t i = 0; i < t->definitions.info_count; i++) {
        const struct ct_string *key = &t->definitions.strings[t->definitions.info[i].key];
        if (key->length > length && memcmp(key->at, hook, length) == 0)
            return 1;
    }
    return 0;
}

// Only a process that ended in good order has counted all of its hooks. Else, and without any
// count, assume the worse.
int ct_torch_settings_limit_reuse(const struct ct_trace *t) {
    return was_called(t, "hook.cuStreamCreate") || !was_called(t, "hook.") || !t->ended;
}

int ct_torch_settings_hide_retries(const struct ct_trace *t) {
    return has_allocator_setting(t, "max_split_size_mb") ||
           was_called(t, "hook.cuStreamBeginCapture") || !was_called(t, "hook.") || !t->ended;
}

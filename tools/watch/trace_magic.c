// SPDX-License-Identifier: Apache-2.0
#include "watch/trace_magic.h"

#include <cutrace/format/format.h>
#include <string.h>
#include <unistd.h>

enum ct_trace_magic ct_trace_magic_find(int fd) {
    char head[16];
    uint32_t magic;
    const ssize_t n = pread(fd, head, sizeof head, 0);
    if (n == 0)
        return CT_TRACE_MAGIC_EMPTY;
    if (n < (ssize_t)sizeof head)
        return CT_TRACE_MAGIC_NONE;
    memcpy(&magic, head, sizeof magic);
    if (magic != CT_PREFIX_MAGIC && magic != CT_SKIPPABLE_MAGIC)
        return CT_TRACE_MAGIC_NONE;
    if (memcmp(head + 8, CT_CHUNK_MAGIC, 8) == 0)
        return CT_TRACE_MAGIC_CHUNK;
    return magic == CT_SKIPPABLE_MAGIC ? CT_TRACE_MAGIC_FREE : CT_TRACE_MAGIC_NONE;
}

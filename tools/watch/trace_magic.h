// SPDX-License-Identifier: Apache-2.0
// Whether a file is a trace, by its first bytes: what is none is never written to, nor removed.
#ifndef CT_WATCH_TRACE_MAGIC_H
#define CT_WATCH_TRACE_MAGIC_H

enum ct_trace_magic {
    CT_TRACE_MAGIC_NONE,
    CT_TRACE_MAGIC_EMPTY, // no byte yet: a trace only if its journal says so
    CT_TRACE_MAGIC_FREE,  // free space, maybe a chunk once: a trace only if its journal says so
    CT_TRACE_MAGIC_CHUNK,
};

// `fd`: open for reading.
enum ct_trace_magic ct_trace_magic_find(int fd);

#endif

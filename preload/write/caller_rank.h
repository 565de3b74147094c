// SPDX-License-Identifier: Apache-2.0
// How well a frame names a call site on the line about a failed allocation: as the report ranks it
// (noise.h), except that the functions of a module whose symbols are not loaded are not known yet.
// Pure functions; any thread.
#ifndef CT_WRITE_CALLER_RANK_H
#define CT_WRITE_CALLER_RANK_H

#include <stddef.h>

// The best first. NONE: the frame is cutrace's or CUDA's, or nothing is known of it.
enum ct_caller_rank {
    CT_CALLER_NAMED,
    CT_CALLER_NAMELESS,
    CT_CALLER_WRAPPER, // a line of Python that is noise
    CT_CALLER_NOISE,
    CT_CALLER_NONE,
};

// Ranks a line of Python. The texts are not NUL-terminated.
enum ct_caller_rank ct_caller_rank_python(const char *file, size_t file_bytes, const char *function,
                                          size_t function_bytes);
// Ranks a native frame by the path of its module and its symbol (NULL: not known).
enum ct_caller_rank ct_caller_rank_native(const char *module, const char *symbol, size_t bytes);

#endif

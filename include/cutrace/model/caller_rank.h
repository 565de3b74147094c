// SPDX-License-Identifier: Apache-2.0
// How well a frame names a call site on the recorder's line about a failed allocation: as the
// report ranks it (noise.h), except that the functions of a module whose symbols are not loaded are
// not known yet. Pure functions; any thread.
//
// Header-only, because the recorder and the report must name the same caller on that line.
#ifndef CUTRACE_CALLER_RANK_H
#define CUTRACE_CALLER_RANK_H

#include <cutrace/model/noise.h>

// The best first. NONE: the frame is cutrace's or CUDA's, or nothing is known of it.
enum ct_caller_rank {
    CT_CALLER_NAMED,
    CT_CALLER_NAMELESS,
    CT_CALLER_WRAPPER, // a line of Python that is noise
    CT_CALLER_NOISE,
    CT_CALLER_NONE,
};

enum { CT_CALLER_FILE = 512, CT_CALLER_FUNCTION = 256 }; // longer names are cut

static inline void ct_caller_copy(const char *text, size_t bytes, char *to, size_t size) {
    const size_t n = bytes < size ? bytes : size - 1;
    memcpy(to, text, n);
    to[n] = 0;
}

// Ranks a line of Python. The texts are not NUL-terminated.
static inline enum ct_caller_rank ct_caller_rank_python(const char *file, size_t file_bytes,
                                                        const char *function,
                                                        size_t function_bytes) {
    char path[CT_CALLER_FILE], name[CT_CALLER_FUNCTION];
    // What a path ends with tells more than what it begins with.
    const size_t cut = file_bytes >= sizeof path ? file_bytes - sizeof path + 1 : 0;
    ct_caller_copy(file + cut, file_bytes - cut, path, sizeof path);
    ct_caller_copy(function, function_bytes, name, sizeof name);
    return ct_noise_classify_python(path, name) == CT_NOISE_NONE ? CT_CALLER_NAMED
                                                                 : CT_CALLER_WRAPPER;
}

// Ranks a native frame by the path of its module and its symbol (NULL: not known).
static inline enum ct_caller_rank ct_caller_rank_native(const char *module, const char *symbol,
                                                        size_t bytes) {
    const char *slash = strrchr(module, '/');
    char function[CT_CALLER_FUNCTION] = "";
    if (symbol)
        ct_noise_plain_name(symbol, bytes, function, sizeof function);
    const enum ct_noise_group group =
        ct_noise_classify_native(slash ? slash + 1 : module, function);
    if (group == CT_NOISE_OURS || group == CT_NOISE_CUDA)
        return CT_CALLER_NONE;
    if (group != CT_NOISE_NONE)
        return CT_CALLER_NOISE;
    return symbol ? CT_CALLER_NAMED : CT_CALLER_NAMELESS;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// Ranks frames by the table of noise, which the report uses, too.
#include "write/caller_rank.h"

#include <cutrace/model/noise.h>

#include "base/print.h"

enum { MAX_FILE = 512, MAX_FUNCTION = 256 };

enum ct_caller_rank ct_caller_rank_python(const char *file, size_t file_bytes, const char *function,
                                          size_t function_bytes) {
    char path[MAX_FILE], name[MAX_FUNCTION];
    // What a path ends with tells more than what it begins with.
    const size_t cut = file_bytes >= sizeof path ? file_bytes - sizeof path + 1 : 0;
    (void)ct_print(path, sizeof path, "%.*s", (int)(file_bytes - cut), file + cut);
    (void)ct_print(name, sizeof name, "%.*s", (int)function_bytes, function);
    return ct_noise_classify_python(path, name) == CT_NOISE_NONE ? CT_CALLER_NAMED
                                                                 : CT_CALLER_WRAPPER;
}

enum ct_caller_rank ct_caller_rank_native(const char *module, const char *symbol, size_t bytes) {
    const char *slash = strrchr(module, '/');
    char function[MAX_FUNCTION] = "";
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

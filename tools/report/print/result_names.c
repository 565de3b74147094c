// SPDX-License-Identifier: Apache-2.0
#include "print/result_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *find_driver_name(int32_t result) {
    switch (result) {
#define CT_DRIVER_RESULT(number, name) \
    case number:                       \
        return name;
#include "print/result_names.def"
    default:
        return NULL;
    }
}

static const char *find_runtime_name(int32_t result) {
    switch (result) {
#define CT_RUNTIME_RESULT(number, name) \
    case number:                        \
        return name;
#include "print/result_names.def"
    default:
        return NULL;
    }
}

void ct_result_names_format(int32_t result, const char *api, size_t length, char *to, size_t size) {
    static const char runtime[] = "cuda";
    const size_t n = sizeof runtime - 1;
    const int is_runtime = length > n && memcmp(api, runtime, n) == 0;
    const char *name = is_runtime ? find_runtime_name(result) : find_driver_name(result);
    if (name)
        (void)snprintf(to, size, "%s (%" PRId32 ")", name, result);
    else
        (void)snprintf(to, size, "result %" PRId32, result);
}

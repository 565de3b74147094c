// SPDX-License-Identifier: Apache-2.0
// Names and texts of the results.
#include "sim.h"

static const struct {
    int number;
    const char *name, *text;
} errors[] = {
#define SIM_ERROR(number, name, text) {number, name, text},
#include "errors.def"
#undef SIM_ERROR
};

static CUresult look_up(CUresult error, const char **out, bool name) {
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].number == (int)error) {
            *out = name ? errors[i].name : errors[i].text;
            return CUDA_SUCCESS;
        }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr) {
    return look_up(error, pStr, true);
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr) {
    return look_up(error, pStr, false);
}

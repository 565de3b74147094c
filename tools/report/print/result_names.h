// SPDX-License-Identifier: Apache-2.0
// Names of CUDA's results, from result_names.def.
#ifndef CT_RESULT_NAMES_H
#define CT_RESULT_NAMES_H

#include <stddef.h>
#include <stdint.h>

// Writes "CUDA_ERROR_OUT_OF_MEMORY (2)", or "cudaErrorMemoryAllocation (2)" for a function of the
// runtime; of a number without a name "result 4711". `api`: the name of the function that returned
// it, of `length` bytes.
void ct_result_names_format(int32_t result, const char *api, size_t length, char *to, size_t size);

#endif

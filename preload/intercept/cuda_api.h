// SPDX-License-Identifier: Apache-2.0
// The CUDA headers as interception needs them: every ABI variant declared under its exported name.
//
// cuda.h renames functions by macros (`#define cuMemFree cuMemFree_v2`), which would rewrite the
// names in hooks.def. Its own switch for building the driver undoes the renaming and declares the
// older variants too, so that a definition with a wrong signature does not compile.
#ifndef CT_CUDA_API_H
#define CT_CUDA_API_H

#define __CUDA_API_VERSION_INTERNAL
#define __CUDART_API_VERSION_INTERNAL

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC diagnostic pop

#endif

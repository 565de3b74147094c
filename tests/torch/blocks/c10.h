// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the stand-ins for libc10.so and libc10_cuda.so, as in PyTorch, so that the
// compiler mangles the names alike.
#ifndef BLOCKS_C10_H
#define BLOCKS_C10_H

#include <cstddef>
#include <cstdint>

#define C10_API __attribute__((visibility("default")))

namespace c10 {
struct Device {
    int8_t type, index;
};
C10_API void reportMemoryUsageToProfiler(void *ptr, int64_t bytes, Device device);
C10_API void reportMemoryUsageToProfiler(void *ptr, int64_t bytes, int64_t allocated,
                                         int64_t reserved, Device device);
C10_API void reportMemoryUsageToProfiler(void *ptr, int64_t bytes, size_t allocated,
                                         size_t reserved, Device device);
C10_API void reportOutOfMemoryToProfiler(int64_t bytes, int64_t allocated, int64_t reserved,
                                         Device device);
C10_API void reportOutOfMemoryToProfiler(int64_t bytes, size_t allocated, size_t reserved,
                                         Device device);
namespace cuda {
struct CUDAStream {
    Device device;
    int64_t id;
};
C10_API CUDAStream getCurrentCUDAStream(int8_t device);
} // namespace cuda
} // namespace c10

enum { C10_USAGE_16, C10_USAGE_110, C10_USAGE_20, C10_OOM_113, C10_OOM_20, C10_VARIANTS };

#endif

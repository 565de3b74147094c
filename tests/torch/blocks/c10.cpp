// SPDX-License-Identifier: Apache-2.0
// A stand-in for PyTorch's libc10.so: it exports the reports to the profiler under their real names, and counts their
// calls.
#include "c10.h"

#include <atomic>

static std::atomic<unsigned long> calls[C10_VARIANTS];
static std::atomic<long> sum;

static void count(int variant, long bytes, const c10::Device &device) {
    calls[variant]++;
    if (device.type == 1)
        sum += bytes;
}

namespace c10 {
C10_API void reportMemoryUsageToProfiler(void *, int64_t bytes, Device device) {
    count(C10_USAGE_16, bytes, device);
}
C10_API void reportMemoryUsageToProfiler(void *, int64_t bytes, int64_t, int64_t, Device device) {
    count(C10_USAGE_110, bytes, device);
}
C10_API void reportMemoryUsageToProfiler(void *, int64_t bytes, size_t, size_t, Device device) {
    count(C10_USAGE_20, bytes, device);
}
C10_API void reportOutOfMemoryToProfiler(int64_t, int64_t, int64_t, Device device) {
    count(C10_OOM_113, 0, device);
}
C10_API void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device device) {
    count(C10_OOM_20, 0, device);
}
} // namespace c10

extern "C" {
C10_API unsigned long fake_calls(int variant) {
    return calls[variant];
}
C10_API long fake_sum() {
    return sum;
}
// Memory of the CPU is reported from within.
C10_API void fake_cpu(void *ptr, long bytes) {
    c10::reportMemoryUsageToProfiler(ptr, bytes, size_t(0), size_t(0), c10::Device{0, -1});
}
}

// SPDX-License-Identifier: Apache-2.0
// An interposer behind us that throws instead of returning, at one size.
#include <dlfcn.h>

#include <stdexcept>

extern "C" int cuMemAlloc_v2(unsigned long long *p, size_t bytes) {
    static auto real =
        reinterpret_cast<int (*)(unsigned long long *, size_t)>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
    if (bytes == 4242)
        throw std::runtime_error("from below");
    return real(p, bytes);
}

// SPDX-License-Identifier: Apache-2.0
// A plugin that throws, after having called the driver.
#include <stdexcept>

extern "C" int cuMemAlloc_v2(unsigned long long *, size_t);

extern "C" void throw_something() {
    unsigned long long p;
    cuMemAlloc_v2(&p, 3 << 20);
    throw std::runtime_error("from the plugin");
}

// SPDX-License-Identifier: Apache-2.0
// Exceptions of the host: its own, a plugin's, and one that unwinds through a call of the driver.
#include <dlfcn.h>

#include <cstdio>
#include <stdexcept>
#include <string>

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
}

struct Guard {
    const char *name;
    ~Guard() {
        std::printf("unwound %s\n", name);
    }
};

static int depth(int n) {
    Guard g{"depth"};
    if (n == 0)
        throw std::runtime_error("deep");
    return depth(n - 1) + 1;
}

template <class F> static void attempt(const char *name, F f) {
    try {
        Guard g{name};
        f();
        std::printf("%s: nothing thrown\n", name);
    } catch (const std::exception &e) {
        std::printf("%s: %s\n", name, e.what());
    }
}

int main(int argc, char **argv) {
    void *ctx = nullptr;
    unsigned long long p = 0;
    std::printf("%d\n", cuInit(0));
    std::printf("%d\n", cuDevicePrimaryCtxRetain(&ctx, 0));
    std::printf("%d\n", cuCtxSetCurrent(ctx));
    std::printf("%d\n", cuMemAlloc_v2(&p, 1 << 20));
    attempt("own", [] { depth(3); });
    attempt("std", [] { (void)std::string("x").at(9); });
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!plugin)
        return 1;
    attempt("plugin", reinterpret_cast<void (*)()>(dlsym(plugin, "throw_something")));
    // The library behind us throws at this size.
    attempt("driver", [&] { cuMemAlloc_v2(&p, 4242); });
    std::printf("%d\n", cuMemAlloc_v2(&p, 5 << 20));
    std::printf("%d\n", cuMemFree_v2(p));
    return 0;
}

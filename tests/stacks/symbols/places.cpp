// SPDX-License-Identifier: Apache-2.0
// Functions whose debug information is hard to read: inlined several levels deep, templates, lambdas, unnamed
// namespaces, functions within functions, cold parts.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace app {
namespace {
struct Tensor {
    std::vector<float> data;
    std::string name;
};

inline float half(float x) {
    return x > 3 ? x / 2 : x * 7;
}

inline float twice(float x) {
    if (x < 1)
        return half(x) + 1;
    return half(x + 1) * half(x - 1);
}
} // namespace

template <typename T> struct Pool {
    std::map<std::string, std::vector<T>> blocks;

    __attribute__((noinline)) T *take(const std::string &key, size_t n) {
        auto &b = blocks[key];
        b.resize(b.size() + n);
        std::sort(b.begin(), b.end(), [](const T &x, const T &y) { return x < y; });
        return b.data();
    }
};

__attribute__((noinline)) float work(Tensor &t, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) {
        t.data.push_back(twice((float)i));
        struct Local {
            static float more(float x) {
                return x + 2;
            }
        };
        sum += Local::more(t.data.back());
        if (sum > 1e6)
            throw t.name;
    }
    return sum;
}
} // namespace app

extern "C" int places(int n) {
    app::Tensor t{{}, "t"};
    app::Pool<int> p;
    app::Pool<double> q;
    try {
        printf("%f\n", app::work(t, n * 1000));
    } catch (std::string &s) {
        puts(s.c_str());
    }
    return *p.take("y", 5) + (int)*q.take("x", 3);
}

int main(int argc, char **) {
    return places(argc);
}

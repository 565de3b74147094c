// SPDX-License-Identifier: Apache-2.0
// Allocates while exceptions are in flight: in constructors, in destructors during unwinding, in handlers that throw again.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Noisy {
    std::string text;
    explicit Noisy(int n) : text(static_cast<std::size_t>(40 + n % 7), 'x') {}
    ~Noisy() { text += std::string(100, 'y'); }
};

[[gnu::noinline]] int thrower(int depth, unsigned way) {
    Noisy here(depth);
    if (depth == 0)
        throw std::runtime_error(std::string(30 + way % 50, 'e'));
    try {
        return (way & 1 ? thrower(depth - 1, way >> 1) : 1 + thrower(depth - 1, way >> 1));
    } catch (const std::logic_error &) {
        return 1;
    } catch (const std::runtime_error &e) {
        if (way & 2)
            throw;
        std::throw_with_nested(std::runtime_error(std::string(e.what()) + "+"));
    }
}

template <class F> [[gnu::noinline]] int through(const F &f, int n) {
    std::function<int(int)> wrapped = [&f, text = std::string(50, 'z')](int k) { return f(k) + static_cast<int>(text.size()); };
    return n ? through(wrapped, n - 1) : wrapped(1);
}

void work(int rounds, unsigned seed) {
    std::map<std::string, std::vector<int>> words;
    for (int i = 0; i < rounds; i++) {
        seed = seed * 1103515245u + 12345u;
        try {
            thrower(static_cast<int>(seed >> 16) % 12, seed >> 3);
        } catch (const std::exception &e) {
            words[e.what()].push_back(i);
        }
        through([](int k) { return std::to_string(k).size() > 0 ? 1 : 0; }, 3);
        if (words.size() > 100)
            words.clear();
    }
}

} // namespace

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    std::thread other(work, rounds, 7u);
    work(rounds, 1u);
    other.join();
    std::puts("done");
    return 0;
}

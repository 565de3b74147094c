// SPDX-License-Identifier: Apache-2.0
// Opens the stand-ins as Python opens libtorch (RTLD_LOCAL) and uses the allocator. The first argument names the case.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {
struct Torch {
    void *handle, *base;
    void *(*alloc)(int, size_t);
    void (*free)(int, void *);
    void (*release)(int), (*limit)(int, size_t), (*lock)(int), (*unlock)(int), (*old_reports)(int);
    unsigned long (*calls)(int);
    long (*sum)();
    void (*cpu)(void *, long);
    void (*stream)(int, long);
    unsigned long (*asked)();
};

template <class F> void find(void *handle, F &function, const char *name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (!function) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
}

Torch open_torch(const std::string &folder) {
    Torch t{};
    t.handle = dlopen((folder + "/libc10_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!t.handle) {
        std::fprintf(stderr, "%s\n", dlerror());
        std::exit(1);
    }
    find(t.handle, t.alloc, "fake_alloc");
    find(t.handle, t.free, "fake_free");
    find(t.handle, t.release, "fake_release");
    find(t.handle, t.limit, "fake_limit");
    find(t.handle, t.lock, "fake_lock");
    find(t.handle, t.unlock, "fake_unlock");
    find(t.handle, t.old_reports, "fake_old_reports");
    find(t.handle, t.calls, "fake_calls");
    find(t.handle, t.sum, "fake_sum");
    find(t.handle, t.cpu, "fake_cpu");
    find(t.handle, t.stream, "fake_stream");
    find(t.handle, t.asked, "fake_asked");
    return t;
}

void tell(const char *who, const Torch &t) {
    std::printf("%s forwarded", who);
    for (int i = 0; i < 5; i++)
        std::printf(" %lu", t.calls(i));
    std::printf(" sum %ld\n", t.sum());
    std::fflush(stdout);
}

uint64_t next(uint64_t &seed) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 11;
}

size_t some_size(uint64_t &seed) {
    const uint64_t kind = next(seed) % 16;
    return kind < 9 ? 512 * (1 + next(seed) % 64) : kind < 14 ? next(seed) % (4 << 20) : next(seed) % (40 << 20);
}

void work(const Torch &t, unsigned thread, unsigned long ops, int devices) {
    std::vector<std::pair<int, void *>> mine;
    uint64_t seed = 88172645463325252u + thread * 977;
    for (unsigned long i = 0; i < ops; i++) {
        if (i == ops / 2) // no device has so much: each thread is refused, however they take turns
            t.alloc(int(thread) % devices, size_t(1) << 40);
        if (mine.size() > 40 || (!mine.empty() && next(seed) % 2)) {
            const size_t at = next(seed) % mine.size();
            t.free(mine[at].first, mine[at].second);
            mine[at] = mine.back();
            mine.pop_back();
        } else {
            const int device = int(next(seed) % unsigned(devices));
            void *p = t.alloc(device, some_size(seed));
            if (p)
                mine.emplace_back(device, p);
        }
        if (next(seed) % 5000 == 0)
            t.release(0);
    }
    for (size_t i = 0; i + 3 < mine.size(); i++) // some stay
        t.free(mine[i].first, mine[i].second);
}

void threads(const Torch &t, unsigned n, unsigned long ops, int devices) {
    std::vector<std::thread> all;
    for (unsigned i = 0; i < n; i++)
        all.emplace_back(work, std::cref(t), i, ops, devices);
    for (auto &one : all)
        one.join();
}

// A thread that is in dlopen, and in there in a constructor that wants the allocator's mutex, while another one holds the
// mutex and reports for the first time.
int constructor(const std::string &folder, const char *another, const char *plugin) {
    const Torch first = open_torch(folder);
    first.free(0, first.alloc(0, 100 << 20)); // all else is at work
    const Torch t = open_torch(another);
    t.lock(0);
    std::atomic<int> in{0};
    char text[64];
    std::snprintf(text, sizeof text, "%lx:%lx", reinterpret_cast<unsigned long>(&in),
                  reinterpret_cast<unsigned long>(t.alloc));
    setenv("BLOCKS_CONSTRUCTOR", text, 1);
    std::thread other([&] {
        if (!dlopen(plugin, RTLD_NOW | RTLD_LOCAL))
            std::abort();
    });
    while (!in)
        usleep(1000);
    usleep(20000); // it waits for the mutex now, with the loader's lock
    t.old_reports(0);
    t.unlock(0);
    other.join();
    tell("first", first);
    tell("all", t);
    return 0;
}
// Each block with a size of its own, so that the test knows its stream.
void streams(const Torch &t) {
    t.stream(0, 0);
    t.alloc(0, 1024); // on the default stream
    t.stream(0, 5);
    t.alloc(0, 1536);
    t.alloc(1, 2048); // each device has one
    t.stream(1, 7);
    t.alloc(1, 2560);
    t.alloc(0, 3072);
    std::thread other([&] {
        for (int i = 0; i < 40; i++) // like raw_alloc_with_stream: nobody asks for the current stream
            t.free(0, t.alloc(0, 3584));
        t.stream(0, -9);
        for (int i = 0; i < 64; i++) // some are still unknown
            t.free(0, t.alloc(0, 4096));
        t.alloc(0, 4608);
    });
    other.join();
    t.limit(0, 40 << 20);
    t.alloc(0, 50 << 20);
    t.stream(0, 0);
    t.alloc(0, 5120);
    const pid_t child = fork();
    if (!child) {
        t.alloc(0, 5632);
        t.stream(0, 11);
        t.alloc(0, 6144);
        std::exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status || t.asked() != 5)
        std::_Exit(9); // 5: nobody but this program asks
}

// One request after the other: `heal` is refused by the driver until the cache is freed, `raise` is refused for good, `own`
// is a refused call of the program's own, `raw` one of the allocator's that it neither repeats nor reports. Then the process
// is killed, if it does not `exit`.
void refusals(const Torch &t, int n, char **what) {
    int (*own)(void **, size_t), (*raw)(size_t);
    find(dlopen("libcudart.so.13", RTLD_NOW), own, "cudaMalloc");
    find(t.handle, raw, "fake_raw");
    const auto must = [](bool right) {
        if (!right)
            std::_Exit(9);
    };
    for (int i = 0; i < n; i++) {
        const std::string kind = what[i];
        if (kind == "heal") {
            t.free(0, t.alloc(0, 400u << 20));
            void *p = t.alloc(0, 700u << 20);
            must(p);
            t.free(0, p);
            t.release(0);
        } else if (kind == "raw") {
            must(raw(size_t(2 + i) << 30) == 2);
        } else if (kind == "exit") {
            std::exit(0);
        } else if (kind == "raise") {
            must(!t.alloc(0, size_t(2 + i) << 30));
        } else {
            void *p;
            must(own(&p, size_t(2 + i) << 30) == 2);
        }
    }
    kill(getpid(), SIGKILL);
}
} // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "", folder = argc > 2 ? argv[2] : ".";
    const unsigned n = argc > 3 ? unsigned(std::atoi(argv[3])) : 1;
    const unsigned long ops = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 1000;
    const int devices = argc > 5 ? std::atoi(argv[5]) : 1;
    if (what == "constructor")
        return constructor(folder, argv[3], argv[4]);
    Torch t = open_torch(folder);
    if (what == "threads") {
        threads(t, n, ops, devices);
    } else if (what == "killed") {
        std::thread killer([&] {
            usleep(useconds_t(ops));
            kill(getpid(), SIGKILL);
        });
        threads(t, n, 1ul << 40, devices);
    } else if (what == "fork") {
        threads(t, n, ops, devices);
        const pid_t child = fork();
        int status = 1;
        if (!child) { // (its devices are the parent's no more: it only has what the allocator had before)
            void *p[16];
            for (auto &at : p)
                at = t.alloc(0, 512);
            for (auto &at : p)
                t.free(0, at);
            std::exit(0);
        }
        if (waitpid(child, &status, 0) != child || status)
            return 1;
        threads(t, n, ops, devices);
    } else if (what == "limit") {
        void *p = t.alloc(0, 30 << 20);
        t.limit(0, 40 << 20);
        if (!p || t.alloc(0, 50 << 20))
            return 1;
        t.free(0, p);
    } else if (what == "refusals") {
        refusals(t, argc - 3, argv + 3);
    } else if (what == "streams") {
        streams(t);
    } else if (what == "old") {
        t.free(0, t.alloc(0, 512)); // the driver is at work
        t.old_reports(0);
    } else if (what == "cpu") {
        for (int i = 0; i < 10; i++)
            t.cpu(&t, i % 2 ? -4096 : 4096);
    } else if (what == "two") { // another libc10 in another folder
        const Torch other = open_torch(argv[3]);
        for (int i = 0; i < 10; i++) {
            t.free(0, t.alloc(0, 4096));
            if (i % 2)
                other.free(1, other.alloc(1, 8192));
            usleep(30000);
        }
        tell("other", other);
    } else if (what == "unload") {
        t.free(0, t.alloc(0, 4096));
        tell("first", t);
        dlclose(t.handle);
        t = open_torch(folder);
        t.free(0, t.alloc(0, 4096));
    } else {
        return 2;
    }
    tell("all", t);
    return 0;
}

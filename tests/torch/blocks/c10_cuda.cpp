// SPDX-License-Identifier: Apache-2.0
// A stand-in for PyTorch's libc10_cuda.so: a caching allocator that takes segments from the runtime, splits them into
// blocks, and reports under its mutex. After each report it writes the report into its own ledger.
#include "c10.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>

// As in CUDAStream.cpp: a thread's first call makes its array.
namespace c10::cuda {
namespace {
thread_local std::unique_ptr<int64_t[]> current_streams;
std::atomic<unsigned long> asked;
} // namespace

CUDAStream getCurrentCUDAStream(int8_t device) {
    asked++;
    if (!current_streams)
        current_streams.reset(new int64_t[4]());
    return {{1, device}, current_streams[size_t(device)]};
}
} // namespace c10::cuda

namespace {
struct Block {
    size_t size;
    bool used;
    uintptr_t segment;
};

size_t up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

int ledger() {
    static int fd = -1;
    static pid_t pid;
    if (pid != getpid()) {
        char path[4096];
        const char *folder = std::getenv("BLOCKS_LEDGER");
        pid = getpid();
        std::snprintf(path, sizeof path, "%s.%d", folder ? folder : "/dev/null", int(pid));
        fd = folder ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    }
    return fd;
}

struct Pool {
    std::recursive_mutex mutex;
    std::map<uintptr_t, Block> blocks;               // of all segments, by address
    std::set<std::pair<size_t, uintptr_t>> free[2];  // small and large, by size
    std::map<uintptr_t, size_t> segments;
    size_t allocated = 0, reserved = 0, limit = SIZE_MAX;
    int8_t device = 0;

    void write_down(const char *op, uintptr_t ptr, size_t bytes) {
        char line[200];
        const int fd = ledger();
        const int n = std::snprintf(line, sizeof line, "%s %d %#lx %zu %zu %zu %d\n", op, device, ptr,
                                    bytes, allocated, reserved, int(syscall(SYS_gettid)));
        if (fd >= 0 && write(fd, line, size_t(n)) != n)
            std::abort();
    }
    std::set<std::pair<size_t, uintptr_t>> &of(uintptr_t at) {
        return free[segments[blocks[at].segment] > (2u << 20)];
    }
    bool segment(size_t size) {
        const size_t bytes = size <= (1u << 20)    ? 2u << 20
                             : size < (10u << 20) ? 20u << 20
                                                  : up(size, 2u << 20);
        void *p = nullptr;
        if (reserved + bytes > limit || cudaMalloc(&p, bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
        const auto at = uintptr_t(p);
        segments[at] = bytes;
        blocks[at] = {bytes, false, at};
        of(at).insert({bytes, at});
        reserved += bytes;
        return true;
    }
    void release() {
        for (auto s = segments.begin(); s != segments.end();) {
            const auto &b = blocks[s->first];
            if (b.used || b.size != s->second) {
                ++s;
                continue;
            }
            of(s->first).erase({b.size, s->first});
            blocks.erase(s->first);
            reserved -= s->second;
            if (cudaFree(reinterpret_cast<void *>(s->first)) != cudaSuccess)
                std::abort();
            s = segments.erase(s);
        }
    }
    uintptr_t take(size_t size) {
        auto &list = free[size > (1u << 20)];
        const auto best = list.lower_bound({size, 0});
        if (best == list.end())
            return 0;
        const uintptr_t at = best->second;
        Block &b = blocks[at];
        list.erase(best);
        if (b.size - size >= (size > (1u << 20) ? 1u << 20 : 512)) {
            blocks[at + size] = {b.size - size, false, b.segment};
            list.insert({b.size - size, at + size});
            b.size = size;
        }
        b.used = true;
        return at;
    }
    void *alloc(size_t wanted) {
        const std::lock_guard<std::recursive_mutex> lock(mutex);
        const size_t size = up(wanted ? wanted : 1, 512);
        uintptr_t at = take(size);
        if (!at && !segment(size)) {
            release();
            if (!segment(size)) {
                c10::reportOutOfMemoryToProfiler(int64_t(size), allocated, reserved, {1, device});
                write_down("block-oom", 0, size);
                return nullptr;
            }
        }
        if (!at)
            at = take(size);
        allocated += blocks[at].size;
        c10::reportMemoryUsageToProfiler(reinterpret_cast<void *>(at), int64_t(blocks[at].size),
                                         allocated, reserved, {1, device});
        write_down("block-alloc", at, blocks[at].size);
        return reinterpret_cast<void *>(at);
    }
    void give(void *ptr) {
        const std::lock_guard<std::recursive_mutex> lock(mutex);
        auto b = blocks.find(uintptr_t(ptr));
        if (b == blocks.end() || !b->second.used)
            std::abort();
        const size_t size = b->second.size;
        auto &list = of(b->first);
        b->second.used = false;
        allocated -= size;
        const auto next = std::next(b);
        if (next != blocks.end() && !next->second.used && next->second.segment == b->second.segment) {
            list.erase({next->second.size, next->first});
            b->second.size += next->second.size;
            blocks.erase(next);
        }
        if (b != blocks.begin()) {
            const auto before = std::prev(b);
            if (!before->second.used && before->second.segment == b->second.segment) {
                list.erase({before->second.size, before->first});
                before->second.size += b->second.size;
                blocks.erase(b);
                b = before;
            }
        }
        list.insert({b->second.size, b->first});
        // As PyTorch does: the block's address and size before it was put together with its neighbours.
        c10::reportMemoryUsageToProfiler(ptr, -int64_t(size), allocated, reserved, {1, device});
        write_down("block-free", uintptr_t(ptr), size);
    }
};

Pool pools[4];
} // namespace

extern "C" {
C10_API void *fake_alloc(int device, size_t bytes) {
    pools[device].device = int8_t(device);
    return pools[device].alloc(bytes);
}
C10_API void fake_free(int device, void *ptr) {
    pools[device].give(ptr);
}
// Sets the calling thread's current stream.
C10_API void fake_stream(int device, long id) {
    (void)c10::cuda::getCurrentCUDAStream(int8_t(device));
    c10::cuda::current_streams[size_t(device)] = id;
}
C10_API unsigned long fake_asked() {
    return c10::cuda::asked;
}
C10_API void fake_release(int device) {
    const std::lock_guard<std::recursive_mutex> lock(pools[device].mutex);
    pools[device].release();
}
C10_API void fake_limit(int device, size_t bytes) {
    pools[device].limit = bytes;
}
C10_API void fake_lock(int device) {
    pools[device].mutex.lock();
}
C10_API void fake_unlock(int device) {
    pools[device].mutex.unlock();
}
// A call of the runtime that is neither repeated nor reported.
C10_API int fake_raw(size_t bytes) {
    void *p;
    return int(cudaMalloc(&p, bytes));
}
// The reports of other versions of torch, once each.
C10_API void fake_old_reports(int device) {
    const auto d = int8_t(device);
    int a;
    c10::reportMemoryUsageToProfiler(&a, int64_t(1024), {1, d});
    c10::reportMemoryUsageToProfiler(&a, int64_t(-1024), {1, d});
    c10::reportMemoryUsageToProfiler(&a, int64_t(2048), int64_t(4096), int64_t(8192), {1, d});
    c10::reportMemoryUsageToProfiler(&a, int64_t(-2048), int64_t(2048), int64_t(8192), {1, d});
    c10::reportOutOfMemoryToProfiler(int64_t(512), int64_t(2048), int64_t(8192), {1, d});
}
}

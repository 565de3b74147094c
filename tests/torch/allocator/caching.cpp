// SPDX-License-Identifier: Apache-2.0
// Drives the caching allocator of a real libc10_cuda.so with a random mix of requests, and logs the allocator's own
// figures, one line of JSON for each of many quiet moments.
//
// Usage: caching TRUTH NAME=VALUE...         (the names: struct options)
//   The program's own cudaMalloc call of `marker` bytes marks a moment; no segment has this size. `blocks` counts the
//   requests up to then: [allocations, frees, failures]; `profiler` counts the reports to PyTorch's profiler.
//   segments: [address, bytes, stream, large, expandable, [pool], [[bytes, state, requested]...]], where the state is 2 for a
//   allocated block, 1 for one that was freed and still waits for a stream, 0 for a free one.
//   failed: the stream that was current when the last request failed, or null.
//   With `host`, a moment also has the page-locked host memory: [blocks, bytes].
//   With `peer`, the program does nothing but share blocks with a child, which it forks before all else; both write what is
//   shared at two moments, the child into TRUTH.peer: [address, bytes] of each, where bytes 0 are not known.
//
// TORCH is the version that it is built for, 20401 for 2.4.1. The result is 0, or 1 with a reason on standard error.
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <cuda_runtime_api.h>
#if TORCH >= 21000
#include <c10/cuda/PeerToPeerAccess.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <random>
#include <sys/wait.h>
#include <time.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace allocator = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;

// What preload/intercept/torch_streams.c reads.
static_assert(sizeof(c10::StreamId) == 8 && std::is_signed_v<c10::StreamId>);

#define MIB (1ul << 20)

static struct options {
    long seed = 1;
    long operations = 20000; // in all threads together
    long moments = 20;
    long threads = 1;
    long devices = 1;
    long streams = 1;     // of each device, besides the default one
    long live_mb = 600;   // of each device: how much is handed out at most, about
    long largest_mb = 64; // of a request
    long record = 0;      // per mille of the blocks that another stream uses
    long pools = 0;       // per 100,000 operations, a private pool is filled
    long captures = 0;    // 1: half of them while a stream is captured
    long empty = 20;      // per 100,000 operations, the cache is emptied
    long fraction = 0;    // percent of the device that the allocator may take; 0: all
    long others = 0; // per 100,000 operations, memory of this program's own is taken or given back
    long quiet = 0;  // 1: no truth, no marks: only the work, and its time on standard output
    long raw = 1;    // 0: all requests are tensors'
    long snapshots = 1;   // 0: the allocator has none
    long checkpoints = 0; // 1: private pools are taken back to what they were
    long host = 0;        // per 100,000 operations, page-locked host memory is taken or given back
    long peer = 0;        // 1: see above
    long stop = 0;        // 1: the program ends behind its first request that fails
} options;

static const struct {
    const char *name;
    long *value;
} names[] = {
    {"seed", &options.seed},           {"operations", &options.operations},
    {"moments", &options.moments},     {"threads", &options.threads},
    {"devices", &options.devices},     {"streams", &options.streams},
    {"live_mb", &options.live_mb},     {"largest_mb", &options.largest_mb},
    {"record", &options.record},       {"pools", &options.pools},
    {"captures", &options.captures},   {"empty", &options.empty},
    {"fraction", &options.fraction},   {"others", &options.others},
    {"quiet", &options.quiet},         {"raw", &options.raw},
    {"snapshots", &options.snapshots}, {"checkpoints", &options.checkpoints},
    {"host", &options.host},           {"peer", &options.peer},           {"stop", &options.stop},
};

[[noreturn]] static void fail(const char *what, const char *why) {
    fprintf(stderr, "caching: %s: %s\n", what, why);
    exit(1);
}

static void check(cudaError_t error, const char *what) {
    if (error)
        fail(what, cudaGetErrorString(error));
}

static void read_options(char **words) {
    for (; *words; words++) {
        bool known = false;
        for (auto &n : names) {
            size_t length = strlen(n.name);
            if (strncmp(*words, n.name, length) == 0 && (*words)[length] == '=') {
                *n.value = atol(*words + length + 1);
                known = true;
            }
        }
        if (!known)
            fail(*words, "no such option");
    }
}

// ---- what differs between versions of PyTorch -----------------------------------------------------

using pool_id = c10::cuda::MempoolId_t;

// What libtorch_cuda tells libc10_cuda when it is loaded (no header has it): all devices of these tests are in use.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*answer)(c10::DeviceIndex));
}

static void start_allocator() {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    int count = (int)c10::cuda::device_count();
    if (count < options.devices)
        fail("devices", "there are not so many");
    allocator::init(count);
#if TORCH >= 21000
    c10::cuda::detail::init_p2p_access_cache(count);
#endif
}

static void begin_pool(int device, CUDAStream stream, pool_id id) {
#if TORCH >= 20200
    cudaStream_t its = stream;
    allocator::beginAllocateToPool((c10::DeviceIndex)device, id,
                                   [its](cudaStream_t asked) { return asked == its; });
#else
    allocator::beginAllocateStreamToPool(device, stream, id);
#endif
}

static void end_pool(int device, CUDAStream stream, pool_id id) {
#if TORCH >= 20200
    (void)stream;
    allocator::endAllocateToPool((c10::DeviceIndex)device, id);
#else
    (void)id;
    allocator::endAllocateStreamToPool(device, stream);
#endif
}

static void begin_capture(int device, CUDAStream stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin of a capture");
#if TORCH >= 21500
    allocator::markCaptureBegin((c10::DeviceIndex)device);
#else
    (void)device;
#endif
}

static void end_capture(int device, CUDAStream stream) {
    cudaGraph_t graph = nullptr;
#if TORCH >= 21500
    allocator::markCaptureEnd((c10::DeviceIndex)device);
#else
    (void)device;
#endif
    check(cudaStreamEndCapture(stream, &graph), "end of a capture");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

// ---- one thread's work ------------------------------------------------------------------------------

// A block that is handed out: by raw_alloc, or (as to a tensor) as a DataPtr, which alone can be recorded.
struct held {
    void *ptr;
    c10::DataPtr data;
    int device;
    size_t bytes;
};

enum { ALLOCATIONS, FREES, REFUSALS, COUNTS };

// What PyTorch's profiler is told, which must not become less because somebody else listens.
struct profiler : c10::MemoryReportingInfoBase {
    std::array<std::atomic<long>, COUNTS> counts[8] = {};

    void reportMemoryUsage(void *, int64_t bytes, size_t, size_t, c10::Device device) override {
        counts[device.index()][bytes > 0 ? ALLOCATIONS : FREES]++;
    }
    void reportOutOfMemory(int64_t, size_t, size_t, c10::Device device) override {
        counts[device.index()][REFUSALS]++;
    }
    bool memoryProfilingEnabled() const override {
        return true;
    }
};

static const std::shared_ptr<profiler> told = std::make_shared<profiler>();

struct worker {
    pthread_t thread;
    double took; // seconds
    std::mt19937_64 random;
    std::vector<held> blocks;
    std::vector<void *> others;
    std::vector<std::pair<void *, size_t>> host;
    std::vector<std::pair<int, pool_id>> pools;
    std::vector<std::vector<CUDAStream>> streams; // of each device, the default one first
    std::vector<CUDAStream> pool_streams;         // of each device: nobody else's
    std::vector<size_t> live, target;             // of each device
    std::vector<std::array<long, COUNTS>> counts; // of each device

    size_t below(size_t n) {
        return random() % n;
    }
    bool one_in(size_t n) {
        return below(n) == 0;
    }
    // Happens `n` times in 100,000.
    bool now(long n) {
        return (long)below(100000) < n;
    }
};

static std::vector<worker> workers;
static std::vector<held>
    exchange; // blocks that another thread gives back than the one that took them
static std::mutex exchange_lock;
static pthread_barrier_t work_begins, work_is_done;
static bool over;
static std::atomic<bool> failed; // a request has
static size_t failed_stream;     // which stream the last one was on
static long gone_back; // to a checkpoint

// Most are small; all magnitudes occur.
static size_t any_size(worker &w) {
    size_t kind = w.below(100), largest = (size_t)options.largest_mb * MIB;
    if (kind < 75)
        return 1 + w.below(1ul << (5 + w.below(16)));
    if (kind < 93)
        return MIB + w.below(9 * MIB);
    return largest > 10 * MIB ? 10 * MIB + w.below(largest - 10 * MIB) : largest;
}

static void give_back(worker &w, size_t i) {
    held h = std::move(w.blocks[i]);
    w.blocks[i] = std::move(w.blocks.back());
    w.blocks.pop_back();
    w.live[h.device] -= h.bytes;
    w.counts[h.device][FREES]++;
    if (h.data)
        h.data.clear();
    else
        allocator::raw_delete(h.ptr);
}

static void give_back_some(worker &w) {
    for (size_t n = 1 + w.blocks.size() / 4; n && !w.blocks.empty(); n--)
        give_back(w, w.below(w.blocks.size()));
}

static CUDAStream any_stream(worker &w, int device) {
    return w.streams[device][w.below(w.streams[device].size())];
}

static void use_on_another_stream(worker &w, const held &h) {
    allocator::get()->recordStream(h.data, any_stream(w, h.device));
}

// The current stream decides, or the one that is named.
static bool take(worker &w, int device, size_t bytes, bool on_current_stream) {
    if (!options.raw)
        bytes += 4096; // (the driver may see all of them: marks are smaller)
    held h{nullptr, c10::DataPtr(), device, bytes};
    c10::cuda::set_device((c10::DeviceIndex)device);
    try {
        switch (options.raw ? w.below(4) : 3) {
        case 0:
            h.ptr = allocator::raw_alloc(bytes);
            break;
        case 1:
            if (!on_current_stream) {
                h.ptr = allocator::raw_alloc_with_stream(bytes, any_stream(w, device));
                break;
            } // fall through
        default:
            h.data = allocator::get()->allocate(bytes);
            h.ptr = h.data.get();
        }
    } catch (const c10::OutOfMemoryError &) {
        w.counts[device][REFUSALS]++;
        failed = true;
        failed_stream = (size_t)c10::cuda::getCurrentCUDAStream((c10::DeviceIndex)device).stream();
        return false;
    }
    w.counts[device][ALLOCATIONS]++;
    w.live[device] += bytes;
    if (h.data && (long)w.below(1000) < options.record)
        use_on_another_stream(w, h);
    w.blocks.push_back(std::move(h));
    return true;
}

// As a tree of CUDA graphs goes back to one that was captured before: of the pool's blocks, those that were handed out then are
// handed out again, and all others are taken back. How often is only PyTorch's to say.
static void go_back(worker &w, int device, pool_id id, size_t blocks) {
    std::array<long, COUNTS> before, &counts = w.counts[device];
    const auto state = allocator::getCheckpointState((c10::DeviceIndex)device, id);
    while (w.blocks.size() > blocks && w.one_in(2))
        give_back(w, blocks + w.below(w.blocks.size() - blocks));
    const size_t bytes = any_size(w) / 4 + 1;
    (void)(take(w, device, bytes, true) && take(w, device, bytes, true));
    for (int i = 0; i < COUNTS; i++)
        before[i] = told->counts[device][i];
    auto delta = allocator::setCheckpointPoolState((c10::DeviceIndex)device, state);
    for (int i = 0; i < COUNTS; i++)
        counts[i] += told->counts[device][i] - before[i];
    for (size_t i = blocks; i < w.blocks.size(); i++) {
        w.live[device] -= w.blocks[i].bytes;
        (void)w.blocks[i].data.release_context(); // it was taken back
    }
    w.blocks.resize(blocks);
    for (auto &data : delta.dataptrs_allocd) {
        void *ptr = data.get();
        w.blocks.push_back(held{ptr, std::move(data), device, 0});
    }
    gone_back++;
}

// As a CUDA graph is captured: what its stream takes comes from a pool of its own, which is given up later.
static void fill_pool(worker &w, int device) {
    static std::atomic<unsigned long long> last_id;
    c10::cuda::set_device((c10::DeviceIndex)device);
    CUDAStream stream = w.pool_streams[device], before = c10::cuda::getCurrentCUDAStream();
    pool_id id(++last_id, 0);
    bool capture = options.captures && w.one_in(2);
    size_t blocks = w.blocks.size();
    c10::cuda::setCurrentCUDAStream(stream);
    begin_pool(device, stream, id);
    if (capture)
        begin_capture(device, stream);
    for (size_t n = 2 + w.below(20); n; n--) {
        if (w.blocks.size() > blocks && w.one_in(3))
            give_back(w, blocks + w.below(w.blocks.size() - blocks));
        else if (!take(w, device, any_size(w) / 4 + 1, true))
            break;
    }
    if (capture)
        end_capture(device, stream);
    if (options.checkpoints)
        go_back(w, device, id, blocks);
    end_pool(device, stream, id);
    c10::cuda::setCurrentCUDAStream(before);
    w.pools.emplace_back(device, id);
}

static void give_up_pool(worker &w) {
    size_t i = w.below(w.pools.size());
    allocator::releasePool((c10::DeviceIndex)w.pools[i].first, w.pools[i].second);
    w.pools.erase(w.pools.begin() + (long)i);
}

// Memory that is not the allocator's.
static void touch_others(worker &w) {
    void *p = nullptr;
    if (w.others.size() > 8 || (!w.others.empty() && w.one_in(2))) {
        check(cudaFree(w.others.back()), "cudaFree");
        w.others.pop_back();
    } else if (cudaMalloc(&p, 65536 + w.below(8 * MIB)) == cudaSuccess) {
        w.others.push_back(p);
    } else {
        cudaGetLastError();
    }
}

// As PyTorch's own allocator of it does.
static void touch_host(worker &w) {
    void *p = nullptr;
    const size_t bytes = 1ul << (12 + w.below(12));
    if (w.host.size() > 8 || (!w.host.empty() && w.one_in(2))) {
        check(cudaFreeHost(w.host.back().first), "cudaFreeHost");
        w.host.pop_back();
    } else {
        check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "cudaHostAlloc");
        w.host.emplace_back(p, bytes);
    }
}

static void swap_with_others(worker &w, size_t i) {
    std::lock_guard<std::mutex> lock(exchange_lock);
    w.live[w.blocks[i].device] -= w.blocks[i].bytes;
    if (exchange.size() < 16) {
        exchange.push_back(std::move(w.blocks[i]));
        w.blocks[i] = std::move(w.blocks.back());
        w.blocks.pop_back();
        return;
    }
    std::swap(exchange[w.below(exchange.size())], w.blocks[i]);
    w.live[w.blocks[i].device] += w.blocks[i].bytes;
}

static void operate(worker &w) {
    int device = (int)w.below((size_t)options.devices);
    if (w.now(options.pools))
        fill_pool(w, device);
    if (!w.pools.empty() && (w.pools.size() > 6 || w.now(options.pools)))
        give_up_pool(w);
    if (w.now(options.empty))
        allocator::emptyCache();
    if (w.now(options.others))
        touch_others(w);
    if (options.host && w.now(options.host))
        touch_host(w);
    if (w.one_in(16)) {
        c10::cuda::set_device((c10::DeviceIndex)device);
        c10::cuda::setCurrentCUDAStream(any_stream(w, device));
    }
    if (options.threads > 1 && !w.blocks.empty() && w.one_in(50))
        swap_with_others(w, w.below(w.blocks.size()));
    if (!w.blocks.empty() && (w.live[device] > w.target[device] || w.below(100) < 38)) {
        size_t young = std::min<size_t>(w.blocks.size(), 8);
        give_back(w, w.one_in(2) ? w.below(w.blocks.size()) : w.blocks.size() - 1 - w.below(young));
    } else if (!take(w, device, any_size(w), false) && !options.stop) {
        give_back_some(w);
    }
}

static void work(worker &w, long operations) {
    for (int d = 0; d < options.devices; d++)
        w.target[d] =
            (size_t)options.live_mb * MIB / (size_t)options.threads * (30 + w.below(80)) / 100;
    while (operations-- && !(options.stop && failed))
        operate(w);
}

static long share() {
    return options.operations / options.moments / options.threads;
}

// Of this thread's own time on a processor.
static double seconds() {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *run(void *which) {
    worker &w = *(worker *)which;
    c10::DebugInfoGuard profiling(c10::DebugInfoKind::PROFILER_STATE,
                                  options.quiet ? nullptr : told);
    for (;;) {
        pthread_barrier_wait(&work_begins);
        if (over)
            return nullptr;
        double start = seconds();
        work(w, share());
        w.took += seconds() - start;
        pthread_barrier_wait(&work_is_done);
    }
}

static void prepare(worker &w, size_t number) {
    w.random.seed((unsigned long)options.seed * 1000 + number);
    w.counts.resize((size_t)options.devices);
    w.live.resize((size_t)options.devices);
    w.target.resize((size_t)options.devices);
    for (int d = 0; d < options.devices; d++) {
        c10::DeviceIndex device = (c10::DeviceIndex)d;
        w.streams.push_back({c10::cuda::getDefaultCUDAStream(device)});
        for (long n = 0; n < options.streams; n++)
            w.streams.back().push_back(c10::cuda::getStreamFromPool(false, device));
        if (options.pools)
            w.pool_streams.push_back(c10::cuda::getStreamFromPool(true, device));
    }
}

// ---- the truth ----------------------------------------------------------------------------------------

template <class Segment> static void write_segment(FILE *out, const Segment &s) {
    fprintf(out, "[%zu,%zu,%zu,%s,%s,[%llu,%llu],[", (size_t)s.address, (size_t)s.total_size,
            (size_t)s.stream, s.is_large ? "true" : "false", s.is_expandable ? "true" : "false",
            (unsigned long long)s.owner_private_pool_id.first,
            (unsigned long long)s.owner_private_pool_id.second);
    const char *comma = "";
    for (const auto &b : s.blocks) {
        fprintf(out, "%s[%zu,%d,%zu]", comma, (size_t)b.size, b.allocated ? 2 : b.active,
                (size_t)b.requested_size);
        comma = ",";
    }
    fputs("]]", out);
}

template <class Snapshot> static void write_device(FILE *out, int device, const Snapshot &all) {
    auto s = allocator::getDeviceStats((c10::DeviceIndex)device);
    long counts[COUNTS] = {};
    for (const worker &w : workers)
        for (int i = 0; i < COUNTS; i++)
            counts[i] += w.counts[device][i];
    fprintf(
        out,
        "{\"device\":%d,\"blocks\":[%ld,%ld,%ld],\"profiler\":[%ld,%ld,%ld],\"allocated\":%ld,\"reserved\":%ld,\"active\":%ld,"
        "\"requested\":%ld,\"retries\":%ld,\"ooms\":%ld,\"segments\":[",
        device, counts[0], counts[1], counts[2], told->counts[device][0].load(),
        told->counts[device][1].load(), told->counts[device][2].load(),
        (long)s.allocated_bytes[0].current, (long)s.reserved_bytes[0].current,
        (long)s.active_bytes[0].current, (long)s.requested_bytes[0].current,
        (long)s.num_alloc_retries, (long)s.num_ooms);
    const char *comma = "";
    for (const auto &segment : all.segments)
        if (segment.device == device) {
            fputs(comma, out);
            write_segment(out, segment);
            comma = ",";
        }
    fputs("]}", out);
}

// While all other threads wait.
static void write_moment(FILE *out, long number) {
    void *p = nullptr;
    size_t marker = (size_t)number + 1;
    c10::cuda::set_device(0);
    if (cudaMalloc(&p, marker) == cudaSuccess)
        check(cudaFree(p), "cudaFree");
    else
        cudaGetLastError(); // the device is full: a refused call is a mark, too
    const auto all = options.snapshots ? allocator::snapshot() : allocator::SnapshotInfo();
    size_t pieces = 0, bytes = 0;
    for (const worker &w : workers)
        for (const auto &[ptr, size] : w.host) {
            pieces++;
            bytes += size;
        }
    fprintf(out, "{\"marker\":%zu,\"host\":[%zu,%zu],\"gone_back\":%ld,\"failed\":", marker, pieces,
            bytes, gone_back);
    if (failed)
        fprintf(out, "%zu,\"devices\":[", failed_stream);
    else
        fputs("null,\"devices\":[", out);
    for (int d = 0; d < options.devices; d++) {
        fputs(d ? "," : "", out);
        write_device(out, d, all);
    }
    fputs("]}\n", out);
}

static void end_of_work() {
    for (worker &w : workers) {
        while (!w.blocks.empty())
            give_back(w, w.blocks.size() - 1);
        while (!w.pools.empty())
            give_up_pool(w);
        for (void *p : w.others)
            check(cudaFree(p), "cudaFree");
        while (!w.host.empty()) {
            check(cudaFreeHost(w.host.back().first), "cudaFreeHost");
            w.host.pop_back();
        }
    }
    for (held &h : exchange) {
        workers[0].counts[h.device][FREES]++;
        h.data ? h.data.clear() : allocator::raw_delete(h.ptr);
    }
    allocator::emptyCache();
}

// A moment may come right after a free whose block still waits for a stream.
static void one_more_free() {
    if (!workers[0].blocks.empty())
        give_back(workers[0], 0);
}

// ---- another process ----------------------------------------------------------------------------------

// A block, as PyTorch tells another process of it.
struct offer {
    size_t offset, length;
    char handle[1024];
};

static const size_t shared_bytes[] = {100000, 3 * MIB, 30 * MIB, 31 * MIB};

static void mark_shared(FILE *out, size_t marker,
                        const std::vector<std::pair<void *, size_t>> &all) {
    void *p = nullptr;
    check(cudaMalloc(&p, marker), "cudaMalloc");
    check(cudaFree(p), "cudaFree");
    fprintf(out, "{\"marker\":%zu,\"shared\":[", marker);
    for (size_t i = 0; i < all.size(); i++)
        fprintf(out, "%s[%zu,%zu]", i ? "," : "", (size_t)all[i].first, all[i].second);
    fputs("]}\n", out);
}

static void put(int to, const void *what, size_t bytes) {
    if (write(to, what, bytes) != (ssize_t)bytes)
        fail("the other process", "is gone");
}

static void get(int from, void *what, size_t bytes) {
    for (ssize_t n; bytes; what = (char *)what + n, bytes -= (size_t)n)
        if ((n = read(from, what, bytes)) <= 0)
            fail("the other process", "is gone");
}

static std::pair<void *, size_t> segment_of(void *ptr) {
    for (const auto &s : allocator::snapshot().segments)
        if ((size_t)ptr - s.address < (size_t)s.total_size)
            return {(void *)s.address, (size_t)s.total_size};
    fail("a block", "is in no segment");
}

static offer offer_of(char *ptr, char *base) {
    offer o{};
    std::string handle;
#if TORCH >= 20500
    (void)base;
    auto told_by = allocator::shareIpcHandle(ptr);
    o.offset = (size_t)told_by.offset;
    handle = told_by.handle;
#else
    cudaIpcMemHandle_t made;
    check(cudaIpcGetMemHandle(&made, base), "cudaIpcGetMemHandle");
    o.offset = (size_t)(ptr - base);
    handle.assign((const char *)&made, sizeof made);
#endif
    o.length = handle.size();
    if (o.length > sizeof o.handle)
        fail("a handle", "is too long");
    memcpy(o.handle, handle.data(), o.length);
    return o;
}

// Shares blocks, some of them in one segment, and waits until the other process has given them back.
static void offer_all(FILE *out, int to, int from) {
    std::vector<std::pair<void *, size_t>> segments;
    std::vector<void *> blocks;
    char done;
    start_allocator();
    for (size_t bytes : shared_bytes) {
        blocks.push_back(allocator::raw_alloc(bytes));
        const auto segment = segment_of(blocks.back());
        if (std::find(segments.begin(), segments.end(), segment) == segments.end())
            segments.push_back(segment);
        const offer o = offer_of((char *)blocks.back(), (char *)segment.first);
        put(to, &o, sizeof o);
    }
    get(from, &done, 1);
    mark_shared(out, 1, segments);
    put(to, &done, 1);
    get(from, &done, 1);
    for (void *p : blocks)
        allocator::raw_delete(p);
    allocator::emptyCache();
    mark_shared(out, 2, {});
}

// Opens what it is offered, each twice, as several tensors of one storage are.
static void open_all(FILE *out, int to, int from) {
    std::vector<std::shared_ptr<void>> opened;
    std::vector<std::pair<void *, size_t>> bases;
    offer o;
    char done = 0;
    start_allocator();
    for (size_t n = 0; n < sizeof shared_bytes / sizeof *shared_bytes; n++) {
        get(from, &o, sizeof o);
        for (int twice = 0; twice < 2; twice++)
            opened.push_back(allocator::getIpcDevPtr(std::string(o.handle, o.length)));
        if (std::find(bases.begin(), bases.end(),
                      std::pair<void *, size_t>(opened.back().get(), 0)) == bases.end())
            bases.emplace_back(opened.back().get(), 0);
    }
    mark_shared(out, 1, bases);
    put(to, &done, 1);
    get(from, &done, 1);
    opened.clear();
    mark_shared(out, 2, {});
    put(to, &done, 1);
}

static int with_peer(const char *truth) {
    int down[2], up[2], status = 0;
    if (pipe(down) || pipe(up))
        fail("pipe", strerror(errno));
    const pid_t child = fork();
    if (child < 0)
        fail("fork", strerror(errno));
    close(child ? down[0] : down[1]); // so that neither waits for one that is gone
    close(child ? up[1] : up[0]);
    const std::string path = std::string(truth) + (child ? "" : ".peer");
    FILE *out = fopen(path.c_str(), "w");
    if (!out)
        fail(path.c_str(), "it cannot be written");
    if (child)
        offer_all(out, down[1], up[0]);
    else
        open_all(out, up[1], down[0]);
    if (fclose(out))
        fail(path.c_str(), "it cannot be written");
    if (child && (waitpid(child, &status, 0) != child || status))
        fail("the other process", "failed");
    return 0;
}

int main(int, char **argv) {
    read_options(argv + 2);
    if (options.peer)
        return with_peer(argv[1]);
    FILE *out = fopen(argv[1], "w");
    if (!out)
        fail(argv[1], "it cannot be written");
    start_allocator();
    c10::DebugInfoGuard profiling(c10::DebugInfoKind::PROFILER_STATE, told);
    if (options.fraction)
        for (int d = 0; d < options.devices; d++)
            allocator::get()->setMemoryFraction((double)options.fraction / 100,
                                                (c10::DeviceIndex)d);
    workers.resize((size_t)options.threads);
    pthread_barrier_init(&work_begins, nullptr, (unsigned)options.threads + 1);
    pthread_barrier_init(&work_is_done, nullptr, (unsigned)options.threads + 1);
    for (size_t i = 0; i < workers.size(); i++) {
        prepare(workers[i], i);
        pthread_create(&workers[i].thread, nullptr, run, &workers[i]);
    }
    for (long number = 0; number < options.moments; number++) {
        pthread_barrier_wait(&work_begins);
        pthread_barrier_wait(&work_is_done);
        if (options.quiet)
            continue;
        if (!options.stop || !failed)
            one_more_free();
        write_moment(out, number);
    }
    over = true;
    pthread_barrier_wait(&work_begins);
    for (worker &w : workers)
        pthread_join(w.thread, nullptr);
    end_of_work();
    if (!options.quiet)
        write_moment(out, options.moments);
    if (fclose(out))
        fail(argv[1], "it cannot be written");
    if (options.quiet)
        printf("%.1f ns an operation\n",
               workers[0].took * 1e9 / (double)(share() * options.moments));
    return 0;
}

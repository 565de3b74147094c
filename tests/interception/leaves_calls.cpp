// SPDX-License-Identifier: Apache-2.0
// Leaves a call of the driver in the middle, or interrupts it, in every way there is, and calls the
// driver again from deeper frames. libcalls_back.so must be preloaded.
//
// usage: leaves_calls WAY
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
}

static void (**in_driver)();
static void *ctx;
static sigjmp_buf target;
static ucontext_t here, there;

// The frames above the calls are left as they were: nothing overwrites what a call has left there.
__attribute__((noinline)) static int deep(int n) {
    volatile char room[512];
    unsigned long long p = 0;
    room[0] = static_cast<char>(n);
    if (n)
        return deep(n - 1) + (room[0] & 0);
    if (cuMemAlloc_v2(&p, 1 << 20) || cuMemFree_v2(p))
        std::exit(1);
    return 0;
}

static void calls() {
    for (int i = 1; i < 6; i++)
        deep(i * 3);
}

static void leave(void (*how)()) {
    unsigned long long p = 0;
    *in_driver = how;
    cuMemAlloc_v2(&p, 4242);
}

// ---- ways to leave ----------------------------------------------------------------------------

struct AtEnd {
    ~AtEnd() {
        calls();
    }
};

static void by_exception() {
    try {
        AtEnd end;
        leave([] { throw std::runtime_error("from below"); });
    } catch (const std::exception &) {
    }
    calls();
}

static void by_longjmp() {
    if (!_setjmp(target))
        leave([] { longjmp(target, 1); });
    calls();
}

static void by_siglongjmp() {
    signal(SIGUSR1, [](int) { siglongjmp(target, 1); });
    if (!sigsetjmp(target, 1))
        leave([] { raise(SIGUSR1); });
    calls();
}

static void in_thread(void *(*f)(void *)) {
    pthread_t thread;
    pthread_create(&thread, nullptr, f, nullptr);
    pthread_join(thread, nullptr);
    calls();
}

static void by_exit() {
    in_thread([](void *) -> void * {
        AtEnd end;
        cuCtxSetCurrent(ctx);
        leave([] { pthread_exit(nullptr); });
        return nullptr;
    });
}

static void by_cancellation() {
    in_thread([](void *) -> void * {
        AtEnd end;
        cuCtxSetCurrent(ctx);
        leave([] {
            pthread_cancel(pthread_self());
            pthread_testcancel();
        });
        return nullptr;
    });
}

// ---- coroutines -------------------------------------------------------------------------------

static void make(char *stack, size_t bytes, void (*body)()) {
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = bytes;
    there.uc_link = &here;
    makecontext(&there, body, 0);
}

__attribute__((noinline)) static void run_in_call(char *stack, size_t bytes) {
    make(stack, bytes, calls);
    leave([] { swapcontext(&here, &there); });
    calls();
}

static const size_t STACK = 256 << 10;

static void in_coroutine_below() {
    run_in_call(static_cast<char *>(mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
                STACK);
}

static void in_coroutine_above() {
    char stack[STACK];
    run_in_call(stack, sizeof stack);
}

// A call that begins in one thread ends in another one.
static void between_threads() {
    char stack[STACK];
    make(stack, sizeof stack, [] { leave([] { swapcontext(&there, &here); }); });
    swapcontext(&here, &there);
    calls();
    in_thread([](void *) -> void * {
        cuCtxSetCurrent(ctx);
        swapcontext(&here, &there);
        calls();
        return nullptr;
    });
}

// ---- handlers ---------------------------------------------------------------------------------

static void in_handler() {
    signal(SIGUSR1, [](int) { calls(); });
    leave([] { raise(SIGUSR1); });
    calls();
}

static void in_handler_above() {
    char stack[STACK];
    stack_t other = {};
    struct sigaction act = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    act.sa_handler = [](int) { calls(); };
    act.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &act, nullptr);
    leave([] { raise(SIGUSR1); });
    calls();
}

static const struct {
    const char *name;
    void (*run)();
} ways[] = {{"exception", by_exception},
            {"longjmp", by_longjmp},
            {"siglongjmp", by_siglongjmp},
            {"pthread_exit", by_exit},
            {"cancellation", by_cancellation},
            {"coroutine below", in_coroutine_below},
            {"coroutine above", in_coroutine_above},
            {"between threads", between_threads},
            {"handler", in_handler},
            {"handler above", in_handler_above}};

int main(int argc, char **argv) {
    *reinterpret_cast<void **>(&in_driver) = dlsym(RTLD_DEFAULT, "in_driver");
    if (argc < 2 || !in_driver || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) ||
        cuCtxSetCurrent(ctx))
        return 2;
    for (const auto &way : ways)
        if (!std::strcmp(way.name, argv[1])) {
            calls();
            way.run();
            std::puts("done");
            return 0;
        }
    return 3;
}

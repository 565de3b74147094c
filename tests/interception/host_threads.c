// SPDX-License-Identifier: Apache-2.0
// Programs with unusual threads, stacks, code and memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"

enum { SMALL = 16384, PAGE = 4096 };

static int short_threads(const char *unused) {
    (void)unused;
    begin();
    for (int i = 0; i < 50; i++)
        run_threads(20, 64 << 10, use_in_thread, (void *)2);
    return 0;
}

// ---- stacks of 16 KiB
static const char *what;

static void *on_small_stack(void *unused) {
    if (!strcmp(what, "first"))
        begin();
    use_in_thread((void *)100);
    if (!strcmp(what, "refused"))
        refuse();
    if (!strcmp(what, "exit"))
        exit(write_notes() ? 1 : 3);
    return unused;
}

static int small_stacks(const char *which) {
    what = which;
    if (strcmp(what, "first") != 0)
        begin();
    for (int i = 0; i < 3; i++)
        run_threads(1, SMALL, on_small_stack, NULL);
    return 0;
}

// A stack between two guard pages.
static char *map_stack(void) {
    char *const p = mmap(NULL, SMALL + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + PAGE, SMALL, PROT_READ | PROT_WRITE))
        abort();
    return p + PAGE;
}

// ---- coroutines that any thread resumes
enum { COROUTINES = 16, TURNS = 100 };
static ucontext_t coroutines[COROUTINES], *resumed_by[COROUTINES];
static pthread_mutex_t resuming = PTHREAD_MUTEX_INITIALIZER;

static void be_coroutine(int i) {
    for (;;) {
        use(1);
        swapcontext(&coroutines[i], resumed_by[i]);
    }
}

static void *resume_coroutines(void *number) {
    ucontext_t me;
    use_in_thread((void *)1);
    for (int n = 0; n < COROUTINES * TURNS; n++) {
        const int i = (n * 7 + (int)(intptr_t)number * 5) % COROUTINES;
        pthread_mutex_lock(&resuming);
        resumed_by[i] = &me;
        swapcontext(&me, &coroutines[i]);
        pthread_mutex_unlock(&resuming);
    }
    return NULL;
}

static int has_coroutines(const char *unused) {
    (void)unused;
    begin();
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&coroutines[i]);
        coroutines[i].uc_stack.ss_sp = map_stack();
        coroutines[i].uc_stack.ss_size = SMALL;
        makecontext(&coroutines[i], (void (*)(void))(uintptr_t)be_coroutine, 1, i);
    }
    run_threads(4, 0, resume_coroutines, NULL);
    return 0;
}

// ---- a cancellation is pending: none of the driver's calls is a cancellation point
static atomic_int reached;

static void *be_cancelled(void *unused) {
    pthread_cancel(pthread_self());
    use_in_thread((void *)100);
    if (!strcmp(what, "refused"))
        refuse();
    atomic_fetch_add(&reached, 1);
    pthread_testcancel();
    atomic_fetch_add(&reached, 100);
    return unused;
}

static int cancelled_threads(const char *which) {
    pthread_t t;
    what = which;
    begin();
    for (int i = 0; i < 3; i++) {
        void *result = NULL;
        pthread_create(&t, NULL, be_cancelled, NULL);
        pthread_join(t, &result);
        note("cancelled %d, reached %d\n", result == PTHREAD_CANCELED, atomic_load(&reached));
    }
    return 0;
}

// ---- code without unwinding information, with a frame pointer that leads anywhere
#ifdef __x86_64__
typedef CUresult allocate(CUdeviceptr *, size_t);

static allocate *assemble(unsigned char *at, uint64_t frame_pointer) {
    const uint64_t function = (uintptr_t)CU(cuMemAlloc_v2);
    // push rbp; mov rbp, frame_pointer; mov rax, function; call rax; pop rbp; ret
    memcpy(at, "\x55\x48\xbd________\x48\xb8________\xff\xd0\x5d\xc3", 25);
    memcpy(at + 3, &frame_pointer, 8);
    memcpy(at + 13, &function, 8);
    return (allocate *)(uintptr_t)at;
}

static int jit_code(const char *unused) {
    unsigned char *const code =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uintptr_t stack = (uintptr_t)map_stack();
    const uint64_t wild[] = {0xdeadbeefdeadbeef,
                             8,
                             0,
                             ~(uint64_t)0,
                             stack - PAGE,
                             stack + SMALL - 8,
                             stack + SMALL - 1,
                             (uintptr_t)&code,
                             (uintptr_t)&code + 1};
    int wrong = 0;
    (void)unused;
    begin();
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        allocate *const jit = assemble(code + 64 * i, wild[i]);
        for (int n = 0; n < 100; n++) {
            CUdeviceptr p = 0;
            wrong += jit(&p, 777 + i) != CUDA_SUCCESS || CU(cuMemFree_v2)(p) != CUDA_SUCCESS;
        }
    }
    note("wrong %d\n", wrong);
    return 0;
}
#else
static int jit_code(const char *unused) {
    (void)unused;
    begin();
    return 0;
}
#endif

// ---- memory
static int many_mappings(const char *unused) {
    int n = 0;
    (void)unused;
    for (int i = 0; i < 5000; i++) // neighbours differ, so that none are joined
        n += mmap(NULL, PAGE, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    note("mapped %d\n", n);
    begin();
    use(1000);
    refuse();
    return 0;
}

static int locks_memory(const char *unused) {
    (void)unused;
    note("mlockall %d\n", mlockall(MCL_FUTURE));
    begin();
    run_threads(4, 0, use_in_thread, (void *)100);
    refuse();
    return 0;
}

// Somebody frees the blocks of files that are being written (fallocate --dig-holes, a cleaner).
static void punch_holes(const char *pattern) {
    glob_t found;
    if (glob(pattern, 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat st;
        const int fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) ||
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size))
            abort();
        close(fd);
    }
    globfree(&found);
}

static int has_holes_punched(const char *unused) {
    (void)unused;
    begin();
    for (int i = 0; i < 20; i++) {
        punch_holes("trace.*.journal");
        use(100);
        run_threads(8, 0, use_in_thread, (void *)50);
    }
    refuse();
    return 0;
}

const struct kind thread_kinds[] = {{"short-threads", short_threads},
                                    {"small-stacks", small_stacks},
                                    {"has-coroutines", has_coroutines},
                                    {"cancelled-threads", cancelled_threads},
                                    {"jit-code", jit_code},
                                    {"many-mappings", many_mappings},
                                    {"locks-memory", locks_memory},
                                    {"has-holes-punched", has_holes_punched},
                                    {NULL, NULL}};

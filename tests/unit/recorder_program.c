// SPDX-License-Identifier: Apache-2.0
// A program that drives the recorder with made-up pointers and keeps its own account, for
// test_recorder.py.
//
// Usage: recorder_program WHAT [NUMBER...]; the account goes to standard output, one line for each
// event that was recorded: "tid t_ns op ptr bytes result" (decimal), in the order of each thread.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/publish.h"
#include "record/tracing.h"
#include "record/writer_thread.h"
#include "stack/capture.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/dictionary.h"
#include "write/drain.h"
#include "write/drain_lock.h"
#include "write/nvml.h"
#include "write/oom_notice.h"
#include "write/open_chunk.h"
#include "write/symbolizer.h"

#define ADDRESSES 64

struct line {
    uint64_t t_ns, ptr, bytes;
    unsigned op;
    int result;
};

struct account {
    struct line *lines;
    size_t n, room;
    int tid;
};

static void note(struct account *a, const struct ct_event *e) {
    if (a->n == a->room) {
        a->room = a->room ? a->room * 2 : 1024;
        a->lines = realloc(a->lines, a->room * sizeof *a->lines);
    }
    a->lines[a->n++] =
        (struct line){e->t_ns, CT_HAS(e, ptr) ? e->ptr : 0, CT_HAS(e, bytes) ? e->bytes : 0, e->op,
                      CT_HAS(e, result) ? e->result : 0};
}

static void tell(struct account *a) {
    for (size_t i = 0; i < a->n; i++)
        printf("%d %llu %u %llu %llu %d\n", a->tid, (unsigned long long)a->lines[i].t_ns,
               a->lines[i].op, (unsigned long long)a->lines[i].ptr,
               (unsigned long long)a->lines[i].bytes, a->lines[i].result);
    free(a->lines);
    *a = (struct account){.tid = a->tid};
}

static void account_begin(struct account *a) {
    *a = (struct account){.tid = (int)syscall(SYS_gettid)};
}

// ---- a driver: addresses are handed out again at once -------------------------------------------

static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_list[ADDRESSES];
static int free_n;

static uint64_t driver_take(void) {
    pthread_mutex_lock(&driver);
    const uint64_t ptr = free_n ? free_list[--free_n] : 0;
    pthread_mutex_unlock(&driver);
    return ptr;
}

static void driver_give(uint64_t ptr) {
    pthread_mutex_lock(&driver);
    free_list[free_n++] = ptr;
    pthread_mutex_unlock(&driver);
}

static void driver_fill(void) {
    free_n = 0;
    for (int i = 0; i < ADDRESSES; i++)
        free_list[free_n++] = UINT64_C(0x7f0000000000) + (uint64_t)i * 0x200000;
}

// ---- hooks, as simple as they can be ------------------------------------------------------------

static __attribute__((noinline)) void record_alloc(struct account *a, uint64_t ptr, uint64_t bytes,
                                                   int result) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_ALLOC);
    CT_SET(&e, api, ct_name_intern("cuMemAlloc_v2"));
    CT_SET(&e, device, 0);
    CT_SET(&e, bytes, bytes);
    CT_SET(&e, space, CT_SPACE_DEVICE);
    CT_SET(&e, result, result);
    if (!result)
        CT_SET(&e, ptr, ptr);
    CT_SET(&e, stack, ct_capture_stack());
    ct_publish(&e);
    if (a)
        note(a, &e);
}

// As the hooks do it: timed first, published before the call.
static __attribute__((noinline)) uint64_t record_free(struct account *a, uint64_t ptr) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, t_ns, ct_ring_now());
    CT_SET(&e, op, CT_OP_FREE);
    CT_SET(&e, api, ct_name_intern("cuMemFree_v2"));
    CT_SET(&e, device, 0);
    CT_SET(&e, ptr, ptr);
    ct_publish(&e);
    if (a)
        note(a, &e);
    return e.t_ns;
}

static void record_amend(struct account *a, uint64_t t_ns, int result) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, amends_ns, t_ns);
    CT_SET(&e, result, result);
    ct_publish_amend(&e);
    if (a)
        for (size_t i = a->n; i-- > 0;)
            if (a->lines[i].t_ns == t_ns) {
                a->lines[i].result = result;
                break;
            }
}

// ---- work for a thread --------------------------------------------------------------------------

struct job {
    struct account account;
    unsigned rounds, seed;
    int flush;
};

static void *work(void *argument) {
    struct job *j = argument;
    uint64_t mine[8] = {0};
    account_begin(&j->account);
    for (unsigned i = 0; i < j->rounds; i++) {
        const unsigned at = (unsigned)rand_r(&j->seed) % 8;
        if (mine[at]) {
            const uint64_t t = record_free(&j->account, mine[at]);
            if (rand_r(&j->seed) % 50 == 0) { // the driver does not take it back
                record_amend(&j->account, t, 1);
                continue;
            }
            driver_give(mine[at]);
            mine[at] = 0;
        } else if ((mine[at] = driver_take())) {
            record_alloc(&j->account, mine[at], 1 + (unsigned)rand_r(&j->seed) % 100000, 0);
        } else if (rand_r(&j->seed) % 100 == 0) {
            record_alloc(&j->account, 0, 12345, 2);
        }
        if (j->flush && rand_r(&j->seed) % 300 == 0)
            (void)ct_publish_flush();
        if (rand_r(&j->seed) % 64 == 0)
            sched_yield();
    }
    for (int i = 0; i < 8; i++)
        if (mine[i]) {
            record_free(&j->account, mine[i]);
            driver_give(mine[i]);
        }
    return NULL;
}

static void threads(unsigned n, unsigned rounds) {
    pthread_t thread[64];
    static struct job jobs[64];
    driver_fill();
    for (unsigned i = 0; i < n; i++) {
        jobs[i] = (struct job){.rounds = rounds, .seed = i + 1, .flush = i == 0};
        pthread_create(&thread[i], NULL, work, &jobs[i]);
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < n; i++)
        tell(&jobs[i].account);
}

// Many threads, one after the other: rings are handed on.
static void short_threads(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        pthread_t thread;
        struct job job = {.rounds = 20, .seed = i};
        if (i == 0)
            driver_fill();
        pthread_create(&thread, NULL, work, &job);
        pthread_join(thread, NULL);
        tell(&job.account);
    }
}

static void wait_ms(unsigned ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

// Until all that was published so far is in the trace's file.
static void wait_until_written(void) {
    struct ct_signal_guard guard;
    for (int is_written = 0; !is_written; wait_ms(1)) {
        if (ct_drain_lock_try(&guard))
            continue;
        is_written = ct_rings_are_empty() && !ct_open_chunk_get()->events && !ct_drain_is_stuck() &&
                     !ct_oom_notice_is_waiting(); // and said
        ct_drain_lock_release(&guard);
    }
}

static void flush(void) {
    while (ct_publish_flush()) // another thread is just writing
        wait_ms(1);
}

// A thread and a visitor free what the other one has just allocated: the later call must have the
// later time.
static _Atomic uint64_t from_host, from_visitor;
static _Atomic int visits_left;

// For a while; what comes is given back at once.
static void wait_for_it(struct account *a, _Atomic uint64_t *from, unsigned ns) {
    for (const uint64_t end = ct_clock_read() + ns; ct_clock_read() < end;) {
        const uint64_t ptr = atomic_load(from) ? atomic_exchange(from, 0) : 0;
        if (ptr) {
            record_free(a, ptr);
            driver_give(ptr);
        }
    }
}

static void hand_over(struct account *a, _Atomic uint64_t *to) {
    const uint64_t ptr = atomic_load(to) ? 0 : driver_take();
    if (ptr) {
        record_alloc(a, ptr, 4096, 0);
        atomic_store(to, ptr);
    }
}

static void *visit(void *argument) {
    struct job *j = argument;
    account_begin(&j->account);
    while (atomic_load(&visits_left)) {
        for (int pause = 0; pause < 3; pause++) { // the other thread records alone for a while
            (void)ct_publish_flush();
            wait_ms(1);
        }
        for (int i = 0; i < 60; i++) {
            hand_over(&j->account, &from_visitor);
            wait_for_it(&j->account, &from_host, (unsigned)rand_r(&j->seed) % 1000);
        }
        atomic_fetch_sub(&visits_left, 1);
    }
    return NULL;
}

static void visits(unsigned n) {
    pthread_t thread;
    static struct job host, visitor = {.seed = 7};
    driver_fill();
    account_begin(&host.account);
    atomic_store(&visits_left, (int)n);
    pthread_create(&thread, NULL, visit, &visitor);
    while (atomic_load(&visits_left)) {
        hand_over(&host.account, &from_host);
        const uint64_t ptr = driver_take();
        record_alloc(&host.account, ptr, 4096, 0);
        wait_for_it(&host.account, &from_visitor, 3000);
        record_free(&host.account, ptr);
        driver_give(ptr);
    }
    pthread_join(thread, NULL);
    tell(&host.account);
    tell(&visitor.account);
}

static void some(struct account *a, unsigned n, uint64_t from) {
    for (unsigned i = 0; i < n; i++)
        record_alloc(a, from + i * 4096, 4096, 0);
}

static uint64_t python_word(const char *function, const char *file, unsigned line) {
    uint64_t words[1 + 2 * 512] = {0};
    const size_t n = strlen(function), m = strlen(file);
    words[0] = (uint64_t)m << 32 | n;
    memcpy(words + 1, function, n);
    memcpy((char *)(words + 1) + n, file, m);
    return ct_frame_word_python(ct_stack_table_intern(words, 1 + (n + m + 7) / 8), line);
}

// Stacks as of Python programs: the frame at depth d (0: the outermost) of stack i is native where
// d % 3 is 0, else a line of Python; the first 40 are shared by all. Two in five do not reach the
// thread's first function.
static uint64_t python_frame(unsigned i, unsigned depth, unsigned d) {
    const unsigned v = d + (d < 40 ? 0 : i % 7 * 50) + (d + 1 == depth ? i % 50 : 0);
    char function[4096], file[64];
    if (!d && i % 5 == 1)
        return ct_frame_word_end(CT_STACK_DEEPER);
    if (!d && i % 5 == 2)
        return ct_frame_word_end(CT_STACK_LOST);
    if (d % 3 == 0)
        return 0x5000 + 16 * v;
    snprintf(function, sizeof function, "f%u%0*d", v % 100, v % 17 ? 1 : 4000, 0);
    snprintf(file, sizeof file, "/m/file%u.py", v % 10);
    return python_word(function, file, v * 10);
}

// how: 1: is killed; 2: the last one is refused.
static void python(unsigned n, unsigned how) {
    ct_tracing_open(); // stacks that are there before the journal are not in it
    for (unsigned i = 0; i < n; i++) {
        const unsigned depth = 1 + i * 7 % 60;
        uint64_t frames[60];
        for (unsigned d = 0; d < depth; d++)
            frames[depth - 1 - d] = python_frame(i, depth, d);
        struct ct_event e = {.present = 0};
        CT_SET(&e, op, CT_OP_ALLOC);
        CT_SET(&e, bytes, i);
        CT_SET(&e, stack, ct_stack_table_intern(frames, depth));
        if (how == 2 && i + 1 == n) {
            CT_SET(&e, device, 0);
            CT_SET(&e, result, 2);
        }
        ct_publish(&e);
    }
    if (how == 1)
        kill(getpid(), SIGKILL);
}

// A stack in a library that was not known yet when the stack was taken out of the ring, and is when
// its names are looked up.
static void library(const char *name, const char *function) {
    some(NULL, 1, 0x100000);
    flush();
    (void)ct_writer_thread_name_pending(1000); // of these stacks nothing is left to do
    void *there = dlopen(name, RTLD_NOW);
    const uint64_t frame = there ? (uintptr_t)dlsym(there, function) + 1 : 1;
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_ALLOC);
    CT_SET(&e, stack, ct_stack_table_intern(&frame, 1));
    ct_publish(&e);
    flush();
    ct_symbolizer_rescan_modules();
    (void)ct_writer_thread_name_pending(1000);
}

// Stacks that never were: frame k of stack i is 16 * ((7 * i + 131 * k * k) % 20011) + 0x5000,
// and every stack but the last comes again a generation of dictionaries later.
static void stacks(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        uintptr_t frames[500];
        for (unsigned k = 0; k < 500; k++)
            frames[k] = 0x5000 + (7 * (i % 7000) + 131 * k * k) % 20011 * 16;
        struct ct_event e = {.present = 0};
        CT_SET(&e, op, CT_OP_ALLOC);
        CT_SET(&e, bytes, i);
        CT_SET(&e, stack, ct_stack_table_intern(frames, 500));
        ct_publish(&e);
        if (i % 2000 == 0)
            flush();
    }
}

static void *forever(void *unused) {
    (void)unused;
    for (uint64_t i = 0;; i++) {
        record_alloc(NULL, 0x600000000000 + i % 100 * 4096, 4096, 0);
        record_free(NULL, 0x600000000000 + i % 100 * 4096);
        if (i > 10000) // as many as a reader can take, however long the exit waits for a core
            wait_ms(1);
    }
    return NULL;
}

static void fork_once(unsigned n) {
    struct account a;
    account_begin(&a);
    some(&a, n, 0x100000);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        account_begin(&a);
        some(&a, n, 0x200000);
        flush();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    some(&a, n, 0x300000);
    tell(&a);
    exit(status);
}

// How often the thread of this number was scheduled if it is the writer thread, else -1.
static long switches_of_writer(const char *thread) {
    char path[300], line[256];
    int is_writer = 0;
    long n = -1;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        is_writer |= !strcmp(line, "Name:\tcutrace\n");
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &n);
    }
    if (f)
        fclose(f);
    return is_writer ? n : -1;
}

// How often the writer thread was scheduled, or -1 if there is none.
static long writer_switches(void) {
    long n = -1;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *e; threads && n < 0 && (e = readdir(threads));)
        n = switches_of_writer(e->d_name);
    if (threads)
        closedir(threads);
    return n;
}

static void *churn(void *events) {
    for (uintptr_t i = 0; i < (uintptr_t)events / 2; i++) {
        record_alloc(NULL, 0x90000000 + i % 97 * 4096, 1 + i * 2654435761u % 100003, 0);
        record_free(NULL, 0x90000000 + i % 97 * 4096);
    }
    return NULL;
}

// 50 allocations whose give-backs all fail, long after they were recorded: another thread records
// `events` meanwhile.
static void late_failures(unsigned rounds, unsigned events) {
    for (unsigned i = 0; i < 50; i++)
        record_alloc(NULL, 0x100000 + i * 4096, 1000 + i, 0);
    for (unsigned i = 0; i < rounds; i++) {
        pthread_t thread;
        const uint64_t t = record_free(NULL, 0x100000 + i % 50 * 4096);
        pthread_create(&thread, NULL, churn, (void *)(uintptr_t)events);
        pthread_join(thread, NULL);
        record_amend(NULL, t, 700);
    }
    for (unsigned i = 0; i < 50; i += 2) // and these do not
        record_free(NULL, 0x100000 + i * 4096);
    churn((void *)(uintptr_t)events);
}

// The disk is full, or the file may not grow: everything goes on, and the loss is told.
static void limit(unsigned n, unsigned then) {
    struct account a;
    account_begin(&a);
    some(&a, 10, 0x100000);
    (void)ct_publish_flush();
    const struct rlimit before = {RLIM_INFINITY, RLIM_INFINITY}, none = {64, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &none))
        exit(3);
    for (unsigned i = 0; i < n; i++)
        record_alloc(NULL, 0x200000 + i % 1000 * 4096, 1, 0);
    if (setrlimit(RLIMIT_FSIZE, &before))
        exit(3);
    (void)ct_publish_flush();
    some(&a, then, 0x900000000);
    tell(&a);
}

// Prints which chunks are restart points, as the journal has them while they are open.
static void restarts(unsigned n) {
    uint64_t last = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        struct ct_signal_guard guard;
        for (unsigned k = 0; k < 400; k++)
            record_alloc(NULL, 0x200000 + k * 4096, 1 + i, 0);
        (void)ct_publish_flush();
        if (ct_drain_lock_wait(&guard, 10000))
            exit(3);
        const struct ct_journal_open *open = ct_open_chunk_get();
        if (open->seq != last && open->flags & CT_CHUNK_RESTART)
            printf("restart %llu\n", (unsigned long long)open->seq);
        last = open->seq;
        ct_drain_lock_release(&guard);
    }
}

// The host closes all descriptors and opens its own file where ours was.
static void close_all(const char *file) {
    struct account a;
    account_begin(&a);
    some(&a, 10, 0x100000);
    (void)ct_publish_flush();
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    int fd;
    while ((fd = open(file, O_CREAT | O_RDWR, 0600)) < 1000 && fd >= 0)
        ;
    some(&a, 10, 0x200000);
    tell(&a);
}

static _Atomic int in_handler;

static void handler(int signal_number) {
    (void)signal_number;
    atomic_fetch_add(&in_handler, 1);
    record_alloc(NULL, 0x400000, 1, 0);
}

static void signals(unsigned rounds) {
    struct sigaction action = {.sa_handler = handler};
    record_alloc(NULL, 0x100000, 2,
                 0); // the first event starts a thread, which is nothing for a handler
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned i = 0; i + 1 < rounds; i++)
        record_alloc(NULL, 0x100000, 2, 0);
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    printf("handled %d\n", atomic_load(&in_handler));
}

// Until all that was published has its names: all tables that these need are there then.
static void wait_for_names(void) {
    struct ct_signal_guard guard;
    for (int is_named = 0; !is_named; wait_ms(1)) {
        if (ct_drain_lock_try(&guard))
            continue;
        is_named = ct_rings_are_empty() && !ct_dictionary_count_unresolved();
        ct_drain_lock_release(&guard);
    }
}

// Until symbol tables are there, or are gone; who started this ends it if that never comes.
static void wait_for_tables(int there) {
    while ((ct_symbolizer_deadline_ns() != 0) != there)
        wait_ms(10);
}

static void idle(unsigned ms) {
    some(NULL, 10, 0x100000);
    wait_for_tables(1);
    wait_for_tables(0);
    wait_ms(1500); // the last chunk
    const long before = writer_switches();
    wait_ms(ms);
    printf("switches %ld %ld\n", before, writer_switches() - before);
}

// Symbol tables are there when frames were named, and go when no new ones have come for a while.
static void tables(void) {
    long kib[2] = {0, 0};
    for (int gone = 0; gone < 2; gone++) {
        if (!gone)
            some(NULL, 10, 0x100000);
        wait_for_tables(!gone);
        wait_for_names(); // one table may be there and the next one not yet
        FILE *f = fopen("/proc/self/smaps_rollup", "r");
        char line[256];
        while (f && fgets(line, sizeof line, f))
            (void)sscanf(line, "Anonymous: %ld kB", &kib[gone]);
        if (f)
            fclose(f);
    }
    printf("anonymous %ld %ld\n", kib[0], kib[1]);
}

// Behind the library's own destructor, as libraries do that free in theirs.
static unsigned late_events;
static struct account late_account;

static __attribute__((destructor(101))) void late(void) {
    for (unsigned i = 0; i < late_events; i++)
        record_alloc(&late_account, 0x900000 + i * 4096, 4096, 0);
    tell(&late_account);
    fflush(stdout);
}

static const unsigned char uuid[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                       0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};

static void device(void) {
    struct ct_event e = {.present = 0}, wake = {.present = 0};
    CT_SET(&e, op, CT_OP_ALLOC);
    CT_SET(&e, api, ct_name_intern("cudaMalloc"));
    CT_SET(&e, device, 1);
    CT_SET(&e, ptr, 0x1000);
    CT_SET(&e, bytes, UINT64_C(3) << 30);
    CT_SET(&e, space, CT_SPACE_DEVICE);
    CT_SET(&e, result, 0);
    ct_publish(&e);
    // Only now, so that NVML is asked when the allocation is there.
    ct_nvml_add_device(1, uuid, UINT64_C(80) << 30);
    CT_SET(&wake, op, CT_OP_NOTE);
    ct_publish(&wake);
    wait_ms(1700);
    e.present &= ~(CT_BIT(t_ns) | CT_BIT(ptr));
    CT_SET(&e, result, 2);
    CT_SET(&e, free_bytes, UINT64_C(2) << 30);
    CT_SET(&e, total_bytes, UINT64_C(80) << 30);
    ct_publish(&e);
}

// Readings of how much is free: as NVML says, and `mib` less a little later.
static void device_moves(unsigned mib) {
    struct ct_event e = {.present = 0};
    ct_nvml_add_device(1, uuid, UINT64_C(80) << 30);
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, device, 1);
    CT_SET(&e, free_bytes, UINT64_C(10) << 30);
    CT_SET(&e, total_bytes, UINT64_C(80) << 30);
    ct_publish(&e);
    wait_ms(300);
    e.present &= ~CT_BIT(t_ns);
    CT_SET(&e, free_bytes, e.free_bytes - ((uint64_t)mib << 20));
    ct_publish(&e);
    wait_ms(600);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const unsigned n = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 1;
    const unsigned m = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : 0;
    struct account a;
    account_begin(&a);
    if (!ct_tracing_is_on())
        return 7;
    if (!strcmp(what, "threads"))
        threads(n, m);
    else if (!strcmp(what, "visits"))
        visits(n);
    else if (!strcmp(what, "idle"))
        idle(n);
    else if (!strcmp(what, "tables"))
        tables();
    else if (!strcmp(what, "late")) {
        some(&a, 10, 0x100000);
        late_account = a;
        late_events = n;
    } else if (!strcmp(what, "device"))
        device();
    else if (!strcmp(what, "device-moves"))
        device_moves(n);
    else if (!strcmp(what, "stacks"))
        stacks(n);
    else if (!strcmp(what, "python"))
        python(n, m);
    else if (!strcmp(what, "library") && argc == 4)
        library(argv[2], argv[3]);
    else if (!strcmp(what, "short-threads"))
        short_threads(n);
    else if (!strcmp(what, "allocs"))
        some(&a, n, 0x100000), tell(&a);
    else if (!strcmp(what, "quiet-allocs")) // without an account, which takes memory itself
        some(NULL, n, 0x100000);
    else if (!strcmp(what, "refuse-and-die")) {
        some(&a, n, 0x100000);
        record_alloc(&a, 0, 1 << 30, 2);
        tell(&a);
        fflush(stdout);
        if (m)
            wait_until_written();
        kill(getpid(), SIGKILL);
    } else if (!strcmp(what, "wait-and-die")) {
        some(&a, n, 0x100000);
        tell(&a);
        fflush(stdout);
        wait_ms(m);
        kill(getpid(), SIGKILL);
    } else if (!strcmp(what, "exit-while")) {
        pthread_t thread;
        some(NULL, 1, 0x100000);
        for (unsigned i = 0; i < n; i++)
            pthread_create(&thread, NULL, forever, NULL);
        wait_ms(m);
        exit(0);
    } else if (!strcmp(what, "fork"))
        fork_once(n);
    else if (!strcmp(what, "limit"))
        limit(n, m);
    else if (!strcmp(what, "restarts"))
        restarts(n);
    else if (!strcmp(what, "close-all"))
        close_all(argv[2]);
    else if (!strcmp(what, "signals"))
        signals(n);
    else if (!strcmp(what, "late-amend")) {
        const uint64_t t = record_free(&a, 0x1000);
        flush();
        record_amend(&a, t, 1);
        tell(&a);
    } else if (!strcmp(what, "late-failures"))
        late_failures(n, m);
    else if (!strcmp(what, "nothing"))
        printf("%llu\n", (unsigned long long)ct_ring_now());
    else
        return 2;
    return 0;
}

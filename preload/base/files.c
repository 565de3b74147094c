// SPDX-License-Identifier: Apache-2.0
// The files that this library opens, out of the program's sight. See files.h.
//
// A keeper serves one slot. A caller takes a free slot (FREE -> TAKEN), puts its work there (->
// ASKED), and gives the slot back when the keeper has done it (DONE -> FREE). There are two, so
// that a folder on a network that does not answer does not hold up the trace: what reads foreign
// paths is the writer thread, and it makes one call at a time.
#define _GNU_SOURCE
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base_libc.h"
#include "base/signal_guard.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
enum { UNSHARE_TABLE = 1 << 1 }; // CLOSE_RANGE_UNSHARE of linux/close_range.h

#define KEEPERS 2u
#define STACK_BYTES (256u << 10)
#define START_SECONDS 1  // a keeper starts within microseconds, unless the machine is busy
#define TRIES 10000u     // for a free slot: a second at least
#define HANDLE (1 << 30) // marks a descriptor of the keepers' table; the kernel's are far below

// ---- the keepers ------------------------------------------------------------------------------

enum { FREE, TAKEN, ASKED, DONE, ENDED };
static struct slot {
    _Atomic uint32_t state;
    long (*work)(void *argument);
    void *argument;
    long result;
} slots[KEEPERS];

enum { NONE, STARTING, APART, REFUSED };
static _Atomic uint32_t table;
static const char *reason = "no trace is open yet";
static int tasks = -1; // /proc/self/task, opened before the program can change its root
static __thread int is_keeper;

// Returns when the word may have another value; NULL waits without end.
static long wait_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most) {
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, most, NULL, 0);
}

static void set_and_wake(_Atomic uint32_t *word, uint32_t value) {
    atomic_store(word, value);
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void serve(struct slot *s) {
    for (;;) {
        const uint32_t state = atomic_load(&s->state);
        if (state == ENDED)
            return;
        if (state != ASKED) {
            (void)wait_while(&s->state, state, NULL);
            continue;
        }
        s->result = s->work(s->argument);
        set_and_wake(&s->state, DONE);
    }
}

static void *keep_second(void *unused) {
    (void)prctl(PR_SET_NAME, "cutrace-files", 0, 0, 0);
    is_keeper = 1;
    serve(&slots[1]);
    return unused;
}

static void set_reason(const char *why) {
    reason = why;
    for (unsigned i = 0; i < KEEPERS; i++)
        set_and_wake(&slots[i].state, ENDED);
}

// The second keeper is created by the first one, whose table it shares.
static void *keep_first(void *unused) {
    uint32_t starting = STARTING;
    (void)prctl(PR_SET_NAME, "cutrace-files", 0, 0, 0);
    is_keeper = 1;
    if (syscall(SYS_close_range, 0u, ~0u, UNSHARE_TABLE))
        set_reason("close_range is refused");
    else if ((tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        set_reason("/proc is missing");
    else if (ct_base_libc_create_thread(keep_second, STACK_BYTES))
        set_reason("no thread could be created");
    // The starter may have given up.
    if (!atomic_compare_exchange_strong(&table, &starting, reason ? REFUSED : APART))
        set_reason("the start took too long");
    (void)syscall(SYS_futex, &table, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    serve(&slots[0]);
    return unused;
}

static void wait_for_start(void) {
    const struct timespec most = {START_SECONDS, 0};
    while (atomic_load(&table) == STARTING)
        if (wait_while(&table, STARTING, &most) && errno == ETIMEDOUT)
            return;
}

void ct_files_start(void) {
    struct ct_signal_guard guard;
    uint32_t starting = STARTING;
    if (atomic_load(&table) != NONE)
        return;
    for (unsigned i = 0; i < KEEPERS; i++)
        atomic_store(&slots[i].state, FREE);
    reason = NULL;
    atomic_store(&table, STARTING);
    ct_signal_guard_enter(&guard); // the keepers inherit the blocked signals
    ct_base_libc_end_single_thread();
    if (ct_base_libc_create_thread(keep_first, STACK_BYTES))
        set_reason("no thread could be created");
    else
        wait_for_start();
    (void)atomic_compare_exchange_strong(&table, &starting, REFUSED);
    ct_signal_guard_leave(&guard);
}

// The folder has a link for each thread, besides its own two.
static long read_links(void *links) {
    struct stat st;
    const int rc = is_keeper ? fstat(tasks, &st) : stat("/proc/self/task", &st);
    *(nlink_t *)links = rc ? 0 : st.st_nlink;
    return rc;
}

unsigned ct_files_count_other_threads(void) {
    nlink_t links = 0;
    if (ct_files_run(read_links, &links) || links < 2)
        return 0;
    return (unsigned)links - 2 - (ct_files_are_apart() ? KEEPERS : 0);
}

int ct_files_are_apart(void) {
    return atomic_load_explicit(&table, memory_order_acquire) == APART;
}

const char *ct_files_get_reason(void) {
    return ct_files_are_apart() ? NULL : reason;
}

void ct_files_reinit_child(void) {
    atomic_store(&table, NONE);
    reason = "no trace is open yet";
}

// ---- asking them --------------------------------------------------------------------------------

// NULL: all are busy, or have ended.
static struct slot *take_slot(void) {
    const struct timespec pause = {0, 100000};
    for (unsigned tries = 0; tries < TRIES && ct_files_are_apart(); tries++) {
        for (unsigned i = 0; i < KEEPERS; i++) {
            uint32_t idle = FREE;
            if (atomic_compare_exchange_strong(&slots[i].state, &idle, TAKEN))
                return &slots[i];
        }
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

static long ask(struct slot *s, long (*work)(void *argument), void *argument) {
    s->work = work;
    s->argument = argument;
    set_and_wake(&s->state, ASKED);
    while (atomic_load(&s->state) == ASKED)
        (void)wait_while(&s->state, ASKED, NULL);
    const long result = s->result;
    atomic_store(&s->state, FREE);
    return result;
}

long ct_files_run(long (*work)(void *argument), void *argument) {
    struct ct_signal_guard guard;
    if (is_keeper || !ct_files_are_apart())
        return work(argument);
    ct_signal_guard_enter(&guard); // a handler that does not return would keep the slot
    struct slot *const s = take_slot();
    const long result = s ? ask(s, work, argument) : -EBUSY;
    ct_signal_guard_leave(&guard);
    return s || ct_files_are_apart() ? result : work(argument);
}

// ---- the calls ----------------------------------------------------------------------------------

// A system call that is made in one of the two tables: name and parameters of our function, which
// of them becomes what member of struct call, and the call.
#define CALLS(X)                                                                                   \
    X(int, ct_openat, (int folder, const char *path, int flags),                                   \
      (.fd = folder, .path = path, .flags = flags), open_file(c))                                  \
    X(int, close_file, (int fd), (.fd = fd), close(c->fd))                                         \
    X(ssize_t, ct_read, (int fd, void *to, size_t n), (.fd = fd, .memory = to, .bytes = n),        \
      read(c->fd, c->memory, c->bytes))                                                            \
    X(ssize_t, ct_pread, (int fd, void *to, size_t n, off_t at),                                   \
      (.fd = fd, .memory = to, .bytes = n, .at = at), pread(c->fd, c->memory, c->bytes, c->at))    \
    X(ssize_t, ct_write, (int fd, const void *from, size_t n),                                     \
      (.fd = fd, .memory = (void *)from, .bytes = n), write(c->fd, c->memory, c->bytes))           \
    X(ssize_t, ct_pwrite, (int fd, const void *from, size_t n, off_t at),                          \
      (.fd = fd, .memory = (void *)from, .bytes = n, .at = at),                                    \
      pwrite(c->fd, c->memory, c->bytes, c->at))                                                   \
    X(int, ct_fstat, (int fd, struct stat *st), (.fd = fd, .memory = st), fstat(c->fd, c->memory)) \
    X(int, ct_lstatat, (int folder, const char *path, struct stat *st),                            \
      (.fd = folder, .path = path, .memory = st),                                                  \
      fstatat(c->fd, c->path, c->memory, AT_SYMLINK_NOFOLLOW))                                     \
    X(int, ct_fstatfs, (int fd, struct statfs *fs), (.fd = fd, .memory = fs),                      \
      fstatfs(c->fd, c->memory))                                                                   \
    X(int, ct_ftruncate, (int fd, off_t bytes), (.fd = fd, .at = bytes), ftruncate(c->fd, c->at))  \
    X(int, ct_fallocate, (int fd, off_t at, off_t bytes),                                          \
      (.fd = fd, .at = at, .bytes = (size_t)bytes), fallocate(c->fd, 0, c->at, (off_t)c->bytes))   \
    X(int, ct_flock, (int fd, int operation), (.fd = fd, .flags = operation),                      \
      flock(c->fd, c->flags))                                                                      \
    X(int, ct_unlinkat, (int folder, const char *path), (.fd = folder, .path = path),              \
      unlinkat(c->fd, c->path, 0))                                                                 \
    X(ssize_t, ct_readlinkat, (int folder, const char *path, char *to, size_t size),               \
      (.fd = folder, .path = path, .memory = to, .bytes = size),                                   \
      readlinkat(c->fd, c->path, c->memory, c->bytes))                                             \
    X(int, ct_faccessat, (int folder, const char *path), (.fd = folder, .path = path),             \
      faccessat(c->fd, c->path, F_OK, 0))                                                          \
    X(long, ct_getdents, (int fd, void *to, size_t size), (.fd = fd, .memory = to, .bytes = size), \
      syscall(SYS_getdents64, c->fd, c->memory, c->bytes))                                         \
    X(void *, ct_map, (int fd, void *where, size_t bytes, off_t at),                               \
      (.fd = fd, .memory = where, .bytes = bytes, .at = at), map(c))

struct call {
    enum {
#define CALL(result, name, parameters, members, made) DO_##name,
        CALLS(CALL)
#undef CALL
    } what;
    int fd; // or the folder of `path`
    const char *path;
    void *memory;
    size_t bytes;
    off_t at;
    int flags;
};

// One thread at a time: of two, one would close the placeholders that the other relies on. A lock
// that a fork has copied belongs to nobody here. Returns 0 if somebody has it for very long.
static _Atomic pid_t opening;
static int lock_opening(void) {
    const struct timespec pause = {0, 100000};
    const pid_t own = getpid();
    for (unsigned tries = 0; tries < 10000; tries++) {
        pid_t owner = atomic_load(&opening);
        if (owner != own && atomic_compare_exchange_strong(&opening, &owner, own))
            return 1;
        (void)syscall(SYS_nanosleep, &pause, NULL); // nanosleep(3) is a cancellation point
    }
    return 0;
}

// In the program's table: a program that has closed stdout may still write to descriptor 1. So
// O_PATH descriptors, which refuse read and write, occupy the free numbers below 3 during the call.
static int open_above_stderr(const struct call *c, int flags) {
    struct ct_signal_guard guard;
    int low[3], n = 0, fd;
    ct_signal_guard_enter(&guard); // a handler would wait for its own thread
    const int locked = lock_opening();
    while ((fd = open("/", O_PATH | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO && n < 3)
        low[n++] = fd;
    if (fd > STDERR_FILENO)
        close(fd);
    fd = c->fd == AT_FDCWD ? open(c->path, flags, 0600) : openat(c->fd, c->path, flags, 0600);
    const int error = errno;
    while (n)
        close(low[--n]);
    if (locked)
        atomic_store(&opening, 0);
    ct_signal_guard_leave(&guard);
    errno = error;
    return fd;
}

static long open_file(const struct call *c) {
    const int flags = c->flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (!is_keeper)
        return open_above_stderr(c, flags);
    const int fd =
        c->fd == AT_FDCWD ? open(c->path, flags, 0600) : openat(c->fd, c->path, flags, 0600);
    return fd < 0 ? fd : fd | HANDLE;
}

static long map(const struct call *c) {
    const int fixed = c->memory ? MAP_FIXED : 0;
    void *const p =
        mmap(c->memory, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, c->fd, c->at);
    return p == MAP_FAILED ? -1 : (long)p;
}

static long do_call(const struct call *c) {
    switch (c->what) {
#define CALL(result, name, parameters, members, made) \
    case DO_##name:                                   \
        return (long)made;
        CALLS(CALL)
#undef CALL
    }
    return -1;
}

// In whichever thread makes the call: a handle means nothing in the program's table.
static long make(void *argument) {
    struct call c = *(const struct call *)argument;
    if (c.fd >= 0 && is_keeper != ((c.fd & HANDLE) != 0))
        return -EBADF;
    if (c.fd >= 0)
        c.fd &= ~HANDLE;
    const long r = do_call(&c);
    return r == -1 ? -errno : r;
}

static long call(struct call c) {
    const int is_the_programs = c.fd >= 0 && !(c.fd & HANDLE);
    const long r = is_the_programs && !is_keeper ? make(&c) : ct_files_run(make, &c);
    if (r >= 0 || r < -4095) // an address may look negative
        return r;
    errno = (int)-r;
    return -1;
}

static int close_file(int fd);
#define MEMBERS(...) __VA_ARGS__
#define CALL(result, name, parameters, members, made)                           \
    result name parameters {                                                    \
        return (result)call((struct call){.what = DO_##name, MEMBERS members}); \
    }
CALLS(CALL)
#undef CALL
#undef MEMBERS
#undef CALLS

int ct_open(const char *path, int flags) {
    return ct_openat(AT_FDCWD, path, flags);
}

void ct_close(int fd) {
    const int saved = errno;
    (void)close_file(fd);
    errno = saved;
}

int ct_files_keep(int fd) {
    static const int lowest[] = {960, 200, 100};
    if (fd & HANDLE)
        return fd;
    for (size_t i = 0; i < sizeof lowest / sizeof *lowest; i++) {
        const int high = fcntl(fd, F_DUPFD_CLOEXEC, lowest[i]);
        if (high >= 0) {
            close(fd);
            return high;
        }
    }
    return fd;
}

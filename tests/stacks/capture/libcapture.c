// SPDX-License-Identifier: Apache-2.0
// A library to preload that captures the stack at each allocation of a program, and reports the
// results at the end.
//
// CAPTURE_REPORT   folder: a file for each process, with "name number" lines
// CAPTURE_MOST     largest number of captures (0: one for each allocation)
// CAPTURE_FAULT    the fault to plant (walk_fault.h)
// CAPTURE_STOP=N   every Nth capture calls capture_stop with the stack's words (0: none), for gdb
// CAPTURE_GLIBC=N  every Nth stack is compared with glibc's backtrace(), by libgcc (0: none)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/tracing.h"
#include "stack/capture.h"
#include "store/stack_table.h"
#include "walk_fault.h"

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static _Atomic int pid; // of the process whose captures have begun
static _Atomic uint64_t captures, none, inside_capture, errno_changed, compared, different;
static uint64_t most, glibc_every, stop_every;
static int ready;
static int (*glibc_backtrace)(void **, int);
static __thread int inside __attribute__((tls_model("initial-exec")));

// Not by its name: libunwind.a, which is linked into this library, has a backtrace() too.
static void find_glibc_backtrace(void) {
    Dl_info where;
    void *found = dlsym(RTLD_NEXT, "backtrace");
    if (!found || !dladdr(found, &where) || !strstr(where.dli_fname, "/libc.so.6"))
        abort();
    memcpy(&glibc_backtrace, &found, sizeof glibc_backtrace);
    void *frame;
    (void)glibc_backtrace(&frame, 1); // loads libgcc
}

static __attribute__((noinline)) void begin(void) {
    most = getenv("CAPTURE_MOST") ? strtoull(getenv("CAPTURE_MOST"), NULL, 10) : 0;
    glibc_every = getenv("CAPTURE_GLIBC") ? strtoull(getenv("CAPTURE_GLIBC"), NULL, 10) : 0;
    stop_every = getenv("CAPTURE_STOP") ? strtoull(getenv("CAPTURE_STOP"), NULL, 10) : 0;
    find_glibc_backtrace();
    atomic_store(&walk_fault, getenv("CAPTURE_FAULT") ? atoi(getenv("CAPTURE_FAULT")) : 0);
    (void)ct_tracing_is_on();
    (void)ct_capture_stack(); // opens the trace: allowed to start a thread
    atomic_store(&captures, 0);
    atomic_store(&inside_capture, 0);
    atomic_store(&pid, getpid());
}

// ---- glibc -------------------------------------------------------------------------------------

static int is_own(uintptr_t pc) {
    static uintptr_t start, end;
    if (!start) {
        Dl_info here;
        struct link_map *map;
        if (!dladdr1((void *)&is_own, &here, (void **)&map, RTLD_DL_LINKMAP))
            abort();
        const ElfW(Ehdr) *const header = here.dli_fbase;
        const ElfW(Phdr) *const p = (const void *)((const char *)header + header->e_phoff);
        for (unsigned i = 0; i < header->e_phnum; i++)
            if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
                start = map->l_addr + p[i].p_vaddr;
                end = start + p[i].p_memsz;
            }
    }
    return pc >= start && pc < end;
}

#define MOST_FRAMES 4000
static __thread void *glibc_frames[MOST_FRAMES];

// Both without this library's frames; equal to the last frame, unless ours ends with a mark.
static void compare(uint32_t id) {
    const struct ct_stack_entry *const e = ct_stack_table_get(id);
    const int n = glibc_backtrace(glibc_frames, MOST_FRAMES);
    uint32_t at = 0;
    int i = 0;
    for (; e && i < n; i++) {
        if (is_own((uintptr_t)glibc_frames[i]))
            continue;
        if (at == e->frames || e->frame[at] != (uintptr_t)glibc_frames[i])
            break;
        at++;
    }
    const int same = at && (at < e->frames ? ct_frame_word_is_end(e->frame[at]) : i == n);
    atomic_fetch_add(&compared, 1);
    atomic_fetch_add(&different, !same);
}

void capture_stop(const uint64_t *words, uint64_t n);
EXPORT __attribute__((noinline)) void capture_stop(const uint64_t *words, uint64_t n) {
    __asm__ volatile("" : : "r"(words), "r"(n) : "memory");
}

static void capture(void) {
    if (!ready)
        return;
    if (inside) {
        atomic_fetch_add(&inside_capture, 1);
        return;
    }
    inside = 1;
    if (atomic_load_explicit(&pid, memory_order_relaxed) != getpid())
        begin();
    if (!most || atomic_load_explicit(&captures, memory_order_relaxed) < most) {
        errno = 4711;
        const uint32_t id = ct_capture_stack();
        if (!id)
            atomic_fetch_add(&none, 1);
        if (errno != 4711)
            atomic_fetch_add(&errno_changed, 1);
        const uint64_t n = atomic_fetch_add(&captures, 1);
        if (glibc_every && n % glibc_every == 0)
            compare(id);
        const struct ct_stack_entry *const e = ct_stack_table_get(id);
        if (stop_every && e && n % stop_every == stop_every - 1)
            capture_stop(e->frame, e->frames);
    }
    inside = 0;
}

EXPORT void *malloc(size_t bytes) {
    const int saved = errno;
    capture();
    errno = saved;
    return __libc_malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t bytes) {
    const int saved = errno;
    capture();
    errno = saved;
    return __libc_calloc(n, bytes);
}

EXPORT void *realloc(void *old, size_t bytes) {
    const int saved = errno;
    capture();
    errno = saved;
    return __libc_realloc(old, bytes);
}

EXPORT int dlclose(void *library) {
    int (*next)(void *) = NULL;
    void *found = dlsym(RTLD_NEXT, "dlclose");
    memcpy(&next, &found, sizeof next);
    const int rc = next(library);
    ct_capture_forget_code(); // the recorder sees it when it looks at the modules
    return rc;
}

static void report(void) {
    char path[4096], text[1024];
    const char *folder = getenv("CAPTURE_REPORT");
    if (!folder || atomic_load(&pid) != getpid())
        return;
    inside = 1;
    const struct ct_capture_counts c = ct_capture_counts();
    snprintf(path, sizeof path, "%s/%d.txt", folder, getpid());
    const int n = snprintf(
        text, sizeof text,
        "captures %lu\nnone %lu\nrecalled %lu\nwalked %lu\nunwound %lu\nchecks %lu\n"
        "mismatches %lu\nallocations_inside %lu\nerrno_changed %lu\ncompared %lu\ndifferent %lu\n",
        atomic_load(&captures), atomic_load(&none), c.recalled, c.walked, c.unwound, c.checks,
        c.mismatches, atomic_load(&inside_capture), atomic_load(&errno_changed),
        atomic_load(&compared), atomic_load(&different));
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, text, (size_t)n) != n)
            abort();
        close(fd);
    }
    inside = 0;
}

__attribute__((constructor)) static void start(void) {
    ready = 1;
}

__attribute__((destructor)) static void end(void) {
    report();
}

EXPORT void _exit(int status) {
    report();
    void (*next)(int) = NULL;
    void *found = dlsym(RTLD_NEXT, "_exit");
    memcpy(&next, &found, sizeof next);
    next(status);
    abort();
}

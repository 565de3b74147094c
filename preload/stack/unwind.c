// SPDX-License-Identifier: Apache-2.0
// Unwinding by libunwind. See unwind.h.
#define _GNU_SOURCE
#include "stack/unwind.h"

#include <errno.h>
#include <libunwind.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/base_libc.h"
#include "stack/own_code.h"
#include "stack/unwind_rules.h"
#include "stack/walk.h"
#include "store/ring.h"

// libunwind 1.6's fast way for aarch64 finds other frames than its own slow one.
#ifdef __x86_64__
#define FAST_IS_RIGHT 1
#else
#define FAST_IS_RIGHT 0
#endif

static _Atomic int held; // a fork is being prepared
static _Atomic int is_disabled;
static _Atomic int is_code_forgotten;

void ct_unwind_init(void) {
    unw_context_t context;
    unw_cursor_t cursor;
    unw_getcontext(&context);
    (void)unw_init_local(&cursor, &context);
}

void ct_unwind_forget_code(void) {
    unw_flush_cache(unw_local_addr_space, 0, 0);
    atomic_store(&is_code_forgotten, 1);
}

// ---- fork ---------------------------------------------------------------------------------------

// Either the fork that is being prepared sees this thread inside, or this thread sees the fork:
// each stores first and loads then, in the one order of sequentially consistent operations.
int ct_unwind_enter(struct ct_ring *ring) {
    atomic_store(&ring->unwinding, 1);
    return atomic_load(&held) | atomic_load(&is_disabled);
}

void ct_unwind_disable(void) {
    atomic_store(&is_disabled, 1);
}

int ct_unwind_is_disabled(void) {
    return atomic_load(&is_disabled);
}

void ct_unwind_leave(struct ct_ring *ring) {
    atomic_store_explicit(&ring->unwinding, 0, memory_order_release);
}

int ct_unwind_is_busy(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        if (atomic_load(&r->unwinding))
            return 1;
    return 0;
}

int ct_unwind_hold(void) {
    const struct timespec pause = {0, 100000};
    atomic_store(&held, 1);
    for (int i = 0; i < 200; i++) {
        if (!ct_unwind_is_busy())
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_unwind_release(void) {
    atomic_store(&held, 0);
}

// ---- unwinding ----------------------------------------------------------------------------------

// Frame by frame, without a cache of whole stacks. Returns how many there are; *lost: more could
// not be found.
static inline __attribute__((always_inline)) int unwind_slowly(uintptr_t *frames, uintptr_t *sp,
                                                               int most, int *lost) {
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t pc;
    int n = 0, rc = 1;
    unw_getcontext(&context);
    if (unw_init_local(&cursor, &context))
        return 0;
    do {
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || ct_walk_is_no_code(pc))
            break;
        if (sp && unw_get_reg(&cursor, UNW_REG_SP, &sp[n]))
            break;
        frames[n++] = pc;
        // The innermost one is no return address, but an address in this function.
        *lost = n > 1 && ct_rule_is_lost(pc);
    } while (n < most && !*lost && (rc = unw_step(&cursor)) > 0);
    *lost |= rc < 0;
    return n;
}

// The same by libunwind's fast way. Where there is no unwind information libunwind goes on by
// guessing: the stack is cut there.
static int unwind_fast(uintptr_t *frames, int most, int *lost) {
    const int n = unw_backtrace((void **)frames, most);
    for (int i = 1; i < n; i++)
        if (ct_rule_is_lost(frames[i])) {
            *lost = 1;
            return i + 1;
        }
    return n;
}

// Leaves the program's frames in `w`. Left out are the frames of this library: the innermost ones,
// up to the one that returns to `pc` (a unit test's frames count as innermost, too), and the
// wrapper of a runtime function that stands between the program and the runtime. The same is done
// to `sp`, if there is one.
static void drop_own_frames(struct ct_walk *w, uintptr_t *sp, size_t n, uintptr_t pc, int lost) {
    const size_t most = ct_walk_depth();
    size_t first = 0;
    while (first < n && w->frame[first] != pc)
        first++;
    w->n = 0;
    w->end = lost ? ct_frame_word_end(CT_STACK_LOST) : 0;
    for (size_t i = first < n ? first : 0; i < n; i++) {
        if (ct_own_code_has(w->frame[i]) ||
            (ct_own_code_in_call_back && !w->n && ct_own_code_is_passed(w->frame[i])))
            continue;
        if (sp)
            sp[w->n] = sp[i];
        if (w->n == most) {
            w->end = ct_frame_word_end(CT_STACK_DEEPER);
            return;
        }
        w->frame[w->n++] = w->frame[i];
    }
    if (sp && w->n)
        sp[w->n] = sp[w->n - 1];
}

static __attribute__((noinline)) void unwind(struct ct_walk *w, uintptr_t *sp, uintptr_t pc,
                                             int slowly) {
    const int most = (int)ct_walk_depth() + 24; // frames of this library come on top
    const int saved = errno;
    uintptr_t *to = (uintptr_t *)w->frame;
    int lost = 0;
    // The fast way keeps a cache for each thread, under a key (base/base_libc.h). ThreadSanitizer
    // would see that destroyed too late, and nothing in it is forgotten when a shared object is
    // unloaded.
    const int fast = FAST_IS_RIGHT && !slowly && !CT_WALK_TSAN &&
                     !atomic_load(&is_code_forgotten) && ct_base_libc_is_ours();
    int n;
    if (fast)
        n = unwind_fast(to, most, &lost);
    else
        n = unwind_slowly(to, sp, most, &lost);
    errno = saved;
    drop_own_frames(w, sp, n > 0 ? (size_t)n : 0, pc, lost);
}

int ct_unwind_stack(struct ct_ring *ring, struct ct_walk *walk, uintptr_t *sp, uintptr_t pc,
                    int slowly) {
    const int busy = ct_unwind_enter(ring);
    walk->n = 0;
    walk->end = 0;
    if (!busy)
        unwind(walk, sp, pc, slowly);
    ct_unwind_leave(ring);
    return busy ? -EBUSY : 0;
}

// ---- what can be read -------------------------------------------------------------------------

// Whether an address can be read: asks the kernel, for this room and for libunwind, without
// descriptors in the host.
//
// Where a frame has no unwind information, libunwind guesses and first probes the address: it
// writes a byte from there into a pipe of its own (src/x86_64/Ginit.c, write_validate). A host that
// closes all descriptors and opens new ones reuses the numbers of that pipe: libunwind would then
// read a byte of the host's file, or write a byte of the stack into the host's socket. So the build
// renames these calls of libunwind.a (module.mk) to the functions below.

int ct_unwind_access_pipe2(int fds[2], int flags);
ssize_t ct_unwind_access_read(int fd, void *to, size_t n);
ssize_t ct_unwind_access_write(int fd, const void *from, size_t n);
long ct_unwind_access_syscall(long number, int fd, const void *from, size_t n);

// No pipe is opened: libunwind's descriptors stay -1.
int ct_unwind_access_pipe2(int fds[2], int flags) {
    (void)fds;
    (void)flags;
    errno = EMFILE;
    return -1;
}

// libunwind drains its pipe before a probe. The pipe is always empty.
ssize_t ct_unwind_access_read(int fd, void *to, size_t n) {
    (void)fd;
    (void)to;
    (void)n;
    errno = EAGAIN;
    return -1;
}

// rt_sigprocmask with an invalid `how` changes nothing. The kernel copies the signal set before it
// checks `how`: the error is EFAULT if the set cannot be read, else EINVAL. Every sandbox in which
// programs run allows this call.
int ct_unwind_access_is_readable(const void *address) {
    const void *aligned = (const void *)((uintptr_t)address & ~(uintptr_t)7);
    return syscall(SYS_rt_sigprocmask, ~0, aligned, NULL, 8) == -1 && errno == EINVAL;
}

ssize_t ct_unwind_access_write(int fd, const void *from, size_t n) {
    (void)fd;
    (void)n;
    const int is_readable = ct_unwind_access_is_readable(from);
    errno = 0; // libunwind checks errno even after a success
    return is_readable ? 1 : -1;
}

// libunwind makes no other call than SYS_write through syscall().
long ct_unwind_access_syscall(long number, int fd, const void *from, size_t n) {
    (void)number;
    return ct_unwind_access_write(fd, from, n);
}

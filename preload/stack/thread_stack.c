// SPDX-License-Identifier: Apache-2.0
// Where the calling thread's own stack lies. See thread_stack.h.
#include "stack/thread_stack.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cutrace/format/assert.h>

#include "stack/unwind.h"
#include "store/ring.h"

#define PAGE 4096u
// From the last frame to the end of the stack lie thread-local storage, or arguments and
// environment.
#define MOST_BETWEEN (256u * PAGE)
#define MOST_FRAMES 4096

// Whether all pages between two addresses can be read. The pages of the two are known to be
// readable.
static int is_one_piece(uintptr_t from, uintptr_t to) {
    if (to < from || to - from > MOST_BETWEEN)
        return 0;
    for (uintptr_t page = (from | (PAGE - 1)) + 1; page < (to & ~(uintptr_t)(PAGE - 1));
         page += PAGE)
        if (!ct_unwind_access_is_readable((const void *)page))
            return 0;
    return 1;
}

// A thread's stack ends below its control block, which has the same mapping. The main thread's ends
// where the kernel has put the 16 random bytes for the program.
static uintptr_t stack_end(const struct ct_ring *ring) {
    const uint32_t tid = (uint32_t)atomic_load_explicit(&ring->shared->owner, memory_order_relaxed);
    if (tid == (uint32_t)getpid())
        return getauxval(AT_RANDOM);
    uintptr_t control_block = 0;
#ifdef __x86_64__
    __asm__("movq %%fs:0, %0" : "=r"(control_block));
#endif
    return control_block;
}

// Establishes T1 for the frame, or returns 0.
static __attribute__((noinline)) int extend_to(struct ct_thread_stack *s, struct ct_ring *ring,
                                               struct ct_walk *walk,
                                               const struct ct_walk_frame *from) {
    struct ct_walk_frame f = *from;
    const uint32_t inputs = walk->inputs;
    int rc = CT_WALK_STEPPED;
    f.end = f.base + CT_WALK_FAR;
    for (int i = 0; i < MOST_FRAMES && rc > 0 && !ct_thread_stack_has(s, f.sp - 8); i++) {
        const uintptr_t before = f.sp - 8;
        rc = ct_walk_step(ring, walk, &f);
        if (rc > 0 && !is_one_piece(before, f.sp - 8))
            rc = CT_WALK_OTHER;
    }
    walk->inputs = inputs;
    if (rc == CT_WALK_OUTERMOST && is_one_piece(f.sp - 8, stack_end(ring)))
        s->high = stack_end(ring);
    else if (rc <= 0 || !ct_thread_stack_has(s, f.sp - 8))
        return 0;
    s->low = f.base;
    return 1;
}

int ct_thread_stack_find(struct ct_thread_stack *s, struct ct_ring *ring, struct ct_walk *walk,
                         const struct ct_walk_frame *from) {
    if (ct_thread_stack_has(s, from->base))
        return 1;
    if (s->attempts_to_skip) {
        s->attempts_to_skip--;
        return 0;
    }
    const int saved = errno, found = extend_to(s, ring, walk, from);
    errno = saved;
    if (found) {
        CT_ASSERT(ct_thread_stack_has(s, from->base));
        return 1;
    }
    // A thread that runs fibers fails each time, and a search costs system calls: back off.
    s->attempts_to_skip = s->skip;
    if (s->skip < 1u << 16)
        s->skip = s->skip * 2 + 16;
    return 0;
}

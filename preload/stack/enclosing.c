// SPDX-License-Identifier: Apache-2.0
// Looks for a frame on the calling thread's stack. See enclosing.h.
//
// The addresses of frames do not tell what stands in what: a frame that was left may lie above the
// caller's, its memory may be as it was, and a coroutine or a handler may have a stack of its own.
// So the frames are followed one by one. That is libunwind's slow way, which needs nothing of this
// thread's but its stack; signals are blocked while it holds a lock.
#include "stack/enclosing.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stack/unwind.h"
#include "stack/unwind_rules.h"
#include "store/ring.h"

#include <libunwind.h>

#define MOST_FRAMES (1 << 16)
#define TRIES 1000u // 0.1 s at least

struct search {
    uintptr_t from, mark;
    int (*is_it)(uintptr_t pc);
    int has_started; // the frame with `from` has been passed
    int in_handler;  // so is one of a signal
    int has_passed;  // so is one with `mark`, which was not it
};

// A frame from its stack pointer up to that of its caller.
struct frame {
    unw_word_t pc, sp, end;
    int is_signal;
};

static int holds(const struct frame *f, uintptr_t address) {
    return !f->is_signal && f->sp <= address && address < f->end;
}

// Returns 1 if this is the frame.
static int look_at(struct search *s, const struct frame *f) {
    if (!s->has_started) {
        s->has_started = holds(f, s->from);
        return 0;
    }
    s->in_handler |= f->is_signal;
    if (!holds(f, s->mark) && (s->mark != CT_ENCLOSING_ANY || f->is_signal))
        return 0;
    if (!s->is_it || s->is_it(f->pc))
        return 1;
    s->has_passed |= s->mark != CT_ENCLOSING_ANY;
    return 0;
}

// Whether a handler returns to this code: rt_sigreturn. (unw_is_signal_frame says so of the frame
// that was interrupted, if libunwind has the trampoline's rules in its cache.)
static int returns_from_signal(uintptr_t pc) {
#ifdef __x86_64__
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
#else
    static const uint8_t code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};
#endif
    return ct_unwind_access_is_readable((const void *)pc) &&
           ct_unwind_access_is_readable((const void *)(pc + sizeof code)) &&
           !memcmp((const void *)pc, code, sizeof code);
}

// The frame of the cursor, which moves on to its caller. Returns unw_step's result: 0 for the
// outermost frame, negative if nothing says who its caller is. `is_call`: the pc is a return
// address, else where something was interrupted.
static int take_frame(unw_cursor_t *cursor, struct frame *f, int is_call) {
    if (unw_get_reg(cursor, UNW_REG_IP, &f->pc) || unw_get_reg(cursor, UNW_REG_SP, &f->sp))
        return -1;
    f->is_signal = returns_from_signal(f->pc);
    f->end = f->sp; // of the outermost frame, which holds nothing of ours
    // Where there is no unwind information libunwind goes on by guessing. A return address with
    // information after it and none before is of no call: makecontext has put it there.
    if (!f->is_signal && ct_rule_is_lost(f->pc + !is_call))
        return is_call && !ct_rule_is_lost(f->pc + 1) ? 0 : -1;
    const int rc = unw_step(cursor);
    return rc > 0 && unw_get_reg(cursor, UNW_REG_SP, &f->end) ? -1 : rc;
}

static __attribute__((noinline)) enum ct_enclosing search_stack(struct search *s) {
    unw_context_t context;
    unw_cursor_t cursor;
    struct frame f = {.is_signal = 0};
    unw_getcontext(&context);
    int rc = unw_init_local(&cursor, &context) ? -1 : 1;
    // This function is no call's caller: its pc is as one that was interrupted.
    for (int n = 0; rc > 0 && n < MOST_FRAMES; n++) {
        rc = take_frame(&cursor, &f, n && !f.is_signal);
        if (rc >= 0 && look_at(s, &f))
            return s->in_handler ? CT_ENCLOSING_HANDLER : CT_ENCLOSING_CALL;
        // Of the frames of one stack, those further out do not hold the mark any more.
        if (s->has_passed)
            return CT_ENCLOSING_NONE;
    }
    return !rc && s->has_started ? CT_ENCLOSING_NONE : CT_ENCLOSING_UNKNOWN;
}

// A fork holds libunwind back for some milliseconds, in which calls go on. Returns 0, or -EBUSY:
// libunwind is not called any more, or the fork takes too long.
static int enter_unwinder(struct ct_ring *ring) {
    const struct timespec pause = {0, 100000};
    for (unsigned i = 0; i < TRIES && !ct_unwind_is_disabled(); i++) {
        if (!ct_unwind_enter(ring))
            return 0;
        ct_unwind_leave(ring);
        (void)syscall(SYS_nanosleep, &pause, NULL); // nanosleep(3) is a cancellation point
    }
    return -EBUSY;
}

enum ct_enclosing ct_enclosing_find(uintptr_t from, uintptr_t mark, int (*is_it)(uintptr_t pc)) {
    struct search s = {.from = from, .mark = mark, .is_it = is_it};
    struct ct_ring *const ring = ct_ring_claim(); // and libunwind is ready
    if (!ring)
        return CT_ENCLOSING_UNKNOWN;
    const int saved = errno;
    const uint32_t outer = atomic_load(&ring->unwinding); // what a signal has interrupted
    const enum ct_enclosing found = enter_unwinder(ring) ? CT_ENCLOSING_UNKNOWN : search_stack(&s);
    ct_unwind_leave(ring);
    atomic_store(&ring->unwinding, outer);
    errno = saved;
    return found;
}

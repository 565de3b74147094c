// SPDX-License-Identifier: Apache-2.0
// Walking the calling thread's native stack by unwind rules: each return address has one simple
// rule that finds its caller (unwind_rules.h). Private to stack/. Each thread walks its own stack
// with its own struct ct_walk.
#ifndef CT_WALK_H
#define CT_WALK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/journal.h>

#include "base/options.h"
#include "stack/unwind_rules.h"

struct ct_ring;

#define CT_WALK_FRAMES (CT_MAX_STACK + 64) // with frames of this library
#define CT_WALK_INPUTS 512u

// A frame during a walk. The walk starts with the frame that called this library. `base` and `end`
// are the same in all frames of a walk: offsets count from `base`, where the first return address
// lies, and no word of the stack lies at `end` or above. rbp is the register's value at the time of
// the frame's call: in `rbp`, or still in memory at `rbp_at` if that is not 0.
struct ct_walk_frame {
    uintptr_t base, pc, sp, rbp, rbp_at, end;
};

// An input word: a word of the stack that the walk has read and that is not the return address of a
// recorded frame.
struct ct_walk_input {
    uint64_t offset, value;
};

// The result of a walk. `end` is the end mark that follows the frames, 0 for none. offset[i] is
// where the return address frame[i] lies; offset[n] is where the last frame's own stack ends.
// (Unwinding by libunwind sets `n`, `end` and `frame` alone.) `learned` is set, and never cleared
// here, when a walk meets code for the first time.
struct ct_walk {
    uint32_t n, inputs;
    uint64_t end;
    uint32_t learned;
    uint64_t frame[CT_WALK_FRAMES];
    uint32_t offset[CT_WALK_FRAMES];
    struct ct_walk_input input[CT_WALK_INPUTS];
};

// How far above its start a walk follows frames where the end of the stack is not known.
#define CT_WALK_FAR (16u << 20)

// Frames that a stack keeps. One more word holds the end mark.
static inline size_t ct_walk_depth(void) {
    return CT_OPTION_NUMBER(STACK_DEPTH) < CT_MAX_STACK ? CT_OPTION_NUMBER(STACK_DEPTH)
                                                        : CT_MAX_STACK - 1;
}

// No code lies in the first pages. libunwind's fast way stops at the same addresses.
static inline int ct_walk_is_no_code(uintptr_t pc) {
    return pc < 0x4000;
}

typedef uint64_t __attribute__((may_alias)) ct_walk_word;

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define CT_WALK_TSAN 1
#else
#define CT_WALK_TSAN 0
#endif
#if CT_WALK_TSAN || defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define CT_WALK_SANITIZED 1
#else
#define CT_WALK_SANITIZED 0
#endif

// A word of the stack. The sanitizers forbid to read the frames of others, so they must not see the
// read.
#if CT_WALK_SANITIZED && defined(__x86_64__)
static inline uint64_t ct_walk_load(uintptr_t address) {
    uint64_t value;
    __asm__("movq (%1), %0" : "=r"(value) : "r"(address) : "memory");
    return value;
}
#else
static inline uint64_t ct_walk_load(uintptr_t address) {
    return *(const ct_walk_word *)address;
}
#endif

// Fills `walk` with the frames above `from` (whose own `end` is not read) that are not this
// library's. `end` bounds the stack. Returns 0, or -1 if a frame has no simple rule: then libunwind
// has to unwind.
int ct_walk_stack(struct ct_ring *ring, struct ct_walk *walk, const struct ct_walk_frame *from,
                  uintptr_t end);

// Makes `f` its caller and adds the words that this reads to walk->input.
enum {
    CT_WALK_STEPPED = 1,   // f is its caller
    CT_WALK_OUTERMOST = 0, // f has no caller
    CT_WALK_LOST = -1,     // no unwind information says who called f
    CT_WALK_OTHER = -2     // f has no simple rule
};
int ct_walk_step(struct ct_ring *ring, struct ct_walk *walk, struct ct_walk_frame *f);

#endif

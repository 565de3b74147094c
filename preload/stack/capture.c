// SPDX-License-Identifier: Apache-2.0
// Taking the calling thread's stack: from memory, by rules, or by libunwind.
//
// 1. Recall. A stack that was walked before is known by its shape: where its return addresses lie. They are read and
//    looked up. Why that is what unwinding would give: a walk by rules (2.) is a computation. Its inputs are where it
//    starts (return address, stack pointer), the rules, and words of the stack: the return addresses,
//    the saved frame pointers that a rule needed, and the CFAs that a rule loaded. A shape has all that it starts from
//    and, as `fixed`, every word that was read and is no return address of the stack; what is looked up has the return
//    addresses. If all of them are equal, then the same computation would read the same words and come to the same
//    end. Nothing is assumed about words that were not read then. (Stale return addresses between live frames do not
//    matter: in the walk that was recorded the slots were the live ones, and with equal inputs they are again.)
//    Return addresses are compared by 64 bits of hash: of a million stacks, two are alike with a chance of 1 in 10^7, and
//    the stacks themselves would have to come from memory each time.
//    The rules are the same as long as no shared object was unloaded (ct_capture_unloaded).
//    All this holds once the words are known to be equal, but they are read before that is known, and the stack may
//    have become shorter than the shape. So shapes are made only of what lies in the thread's own stack, from where it
//    has been seen to be in one piece up to its end, see in_own_stack; that part stays as long as the thread does.
// 2. Walk. Each frame has one of a few rules, see unwind_rules.h. Frames without one are left to 3.
// 3. libunwind: whatever has no simple rule (signal frames, unusual code), and the reference.
//
// Where there is no unwind information the stack ends, with a mark: libunwind would go on by guessing.
//
// Python frames come on top, see python.h: they are walked each time, and the stack that they make together with the
// native one is found by a hash of both. Only a new one is put together (interleave.h).
//
// A stack is remembered when it is seen for the second time: a shape costs as much as a walk.
#define _GNU_SOURCE // dl_iterate_phdr
#include "stack/capture.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/options.h"
#include "base/pages.h"
#include "stack/merge_python.h"
#include "stack/python_walk.h"
#include "stack/unwind_rules.h"
#include "store/loaded_modules.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/info_table.h"

#include <libunwind.h>

#define MOST_FRAMES (CT_MAX_STACK + 64) // with frames of our own
#define MOST_FIXED 512u
#define BY_START 1024u // powers of two
#define MOST_OF_A_START \
    16u // shapes: a frame whose size changes each time makes as many as there are sizes
#define MEMOS 2048u
#define SEEN 1024u
#define SHAPES_BYTES (128u << 10)

struct fixed {
    uint64_t offset, value;
};

// Offsets are bytes from `base`, where the first return address lies.
struct shape {
    uint32_t next; // of the same start, a place in `shapes`; 0: none
    uint16_t frames, fixed;
    uintptr_t base, pc;
    struct fixed word
        []; // `fixed` of them; then uint32_t offset[frames], and zeros up to a whole step of the hash
};

struct memo {
    uint64_t hash;
    uint32_t shape; // 0: none
    uint32_t stack; // its id
};

// Stacks of Python and native frames together.
struct mixed {
    struct ct_python_frame python[CT_MAX_STACK];
    uintptr_t anchor[CT_MAX_STACK];
    uint64_t word[CT_MAX_STACK];
    uintptr_t sp[MOST_FRAMES];
    uint64_t merged[CT_MAX_STACK + 1];
};

struct ct_capture {
    uint32_t claim;      // of the ring, as of the last capture: another thread may have it now
    uint32_t generation; // `unloaded` as of the last capture
    uint32_t used;       // words of `shapes`
    uintptr_t low, high; // of the thread's own stack, in one piece; high 0: not known
    uint32_t pause, next_pause; // memories that are not tried, see may_remember
    uint64_t since_check;       // captures
    _Atomic uint64_t recalled, walked, unwound, checks, mismatches;
    struct mixed *mixed; // its memory for stacks with Python frames
    // What is remembered.
    uint32_t seen[SEEN];
    uint32_t start[BY_START]; // the first shape, a place in `shapes`
    struct memo memo[MEMOS];
    uint64_t shapes[SHAPES_BYTES / 8];
    // A walk.
    uint32_t n, n_fixed;
    uint64_t end; // the mark behind the frames, 0: none
    uint64_t frame[MOST_FRAMES];
    uint32_t offset[MOST_FRAMES]; // one more than frames: where the last one's own stack ends
    struct fixed fixed[MOST_FIXED];
};

// What a thread needs to know at each capture. It is void, like all that is known of a thread, when the number changes:
// something was unloaded or switched off, or this is another process.
static __thread struct {
    uint32_t number;  // *epoch when the rest was found out
    uint32_t busy;    // a signal handler has interrupted a capture
    uint32_t learned; // code was met for the first time
    struct ct_ring *ring;
} self __attribute__((tls_model("initial-exec")));

_Atomic int ct_capture_fault;

static _Atomic int off, held;
static _Atomic int no_shortcuts; // libunwind only
static _Atomic int with_python;  // there is an interpreter, whose frames are wanted
// Lies on a page that is empty in a child, however it was made.
static _Atomic uint32_t first_epoch;
static _Atomic uint32_t *_Atomic epoch = &first_epoch;
static _Atomic uint32_t unloaded;
static uint64_t check_every; // captures; 0: never

// Never 0, which is what a thread begins with, and never one that has been.
static _Atomic uint32_t epochs;
static void new_epoch(void) {
    atomic_store(atomic_load(&epoch), atomic_fetch_add(&epochs, 1) + 1);
}

static inline uint32_t epoch_now(void) {
    return atomic_load_explicit(atomic_load_explicit(&epoch, memory_order_acquire),
                                memory_order_relaxed);
}

// ---- this library -----------------------------------------------------------------------------

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

// Executable addresses of this library; none in a program (a unit test).
static uintptr_t own_start, own_bytes;

static void find_own(void) {
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + header->e_phoff);
    uintptr_t base = 0;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && p[i].p_offset == 0)
            base = (uintptr_t)header - p[i].p_vaddr;
        if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
            own_start = base + p[i].p_vaddr;
            own_bytes = p[i].p_memsz;
        }
    }
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (p[i].p_type == PT_INTERP)
            own_bytes = 0;
}

static inline int is_own(uintptr_t pc) {
    return pc - own_start < own_bytes;
}

// Where libunwind's fast way stops, too.
static inline int is_no_code(uintptr_t pc) {
    return pc < 0x4000;
}

// Frames of a stack, with room for the end mark.
static size_t depth(void) {
    return CT_NUMBER(STACK_DEPTH) < CT_MAX_STACK ? CT_NUMBER(STACK_DEPTH) : CT_MAX_STACK - 1;
}

// ---- libunwind --------------------------------------------------------------------------------

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZED_THREADS 1
#else
#define SANITIZED_THREADS 0
#endif
// libunwind 1.6's fast way for aarch64 finds other frames than its own slow one.
#ifdef __x86_64__
#define FAST_IS_RIGHT 1
#else
#define FAST_IS_RIGHT 0
#endif
#if SANITIZED_THREADS || defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static uint32_t intern(struct ct_capture *c) {
    c->frame[c->n] = c->end;
    return ct_stack_intern(c->frame, c->n + (c->end != 0));
}

static int has_no_information(uintptr_t pc) {
    _Atomic uint64_t *const rules = atomic_load_explicit(&ct_rules, memory_order_relaxed);
    unsigned rule = rules ? ct_rule(rules, pc) : CT_RULE_OTHER;
    return (rule ? rule : ct_rule_learn(pc)) == CT_RULE_LOST;
}

// Frame by frame, without any cache for whole stacks. Returns how many there are; *lost: more could not be found.
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
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || is_no_code(pc))
            break;
        if (sp && unw_get_reg(&cursor, UNW_REG_SP, &sp[n]))
            break;
        frames[n++] = pc;
        // (The innermost is no return address, but one of our own.)
        *lost = n > 1 && has_no_information(pc);
    } while (n < most && !*lost && (rc = unw_step(&cursor)) > 0);
    *lost |= rc < 0;
    return n;
}

// The same by libunwind's fast way.
static int unwind_fast(uintptr_t *frames, int most, int *lost) {
    const int n = unw_backtrace((void **)frames, most);
    for (int i = 1; i < n; i++)
        if (has_no_information(frames[i])) {
            *lost = 1;
            return i + 1;
        }
    return n;
}

// Puts the program's frames into c->frame. Left out are those of this library: the innermost ones, up to where ct_stack
// returns to (which need not be ours), and the wrapper of a runtime function that stands between the program and the
// runtime. The same is done to `sp`, if there is one.
static void drop_own(struct ct_capture *c, uintptr_t *sp, size_t n, uintptr_t pc, int lost) {
    size_t first = 0;
    while (first < n && c->frame[first] != pc)
        first++;
    c->n = 0;
    c->end = lost ? ct_frame_word_end(CT_STACK_LOST) : 0;
    for (size_t i = first < n ? first : 0; i < n; i++) {
        if (is_own(c->frame[i]))
            continue;
        if (sp)
            sp[c->n] = sp[i];
        if (c->n == depth()) {
            c->end = ct_frame_word_end(CT_STACK_DEEPER);
            return;
        }
        c->frame[c->n++] = c->frame[i];
    }
    if (sp && c->n)
        sp[c->n] = sp[c->n - 1];
}

// Inside libunwind_enter.
static __attribute__((noinline)) void unwind(struct ct_capture *c, uintptr_t *sp, uintptr_t pc,
                                             int slowly) {
    const int most = (int)depth() + 24; // frames of our own come on top
    const int saved = errno;
    uintptr_t *to = (uintptr_t *)c->frame;
    int lost = 0;
    // The fast way keeps a cache for each thread: under a sanitizer it would be taken down too late, and when something
    // was unloaded nothing in it would be forgotten.
    const int fast = FAST_IS_RIGHT && !slowly && !SANITIZED_THREADS && !atomic_load(&unloaded);
    const int n = fast ? unwind_fast(to, most, &lost) : unwind_slowly(to, sp, most, &lost);
    errno = saved;
    drop_own(c, sp, n > 0 ? (size_t)n : 0, pc, lost);
}

// Either a fork that is just being prepared sees this thread inside, or this thread sees the fork.
static int libunwind_enter(struct ct_ring *ring) {
    atomic_store(&ring->unwinding, 1);
    return atomic_load(&held);
}

static void libunwind_leave(struct ct_ring *ring) {
    atomic_store_explicit(&ring->unwinding, 0, memory_order_release);
}

// ---- words of the stack -----------------------------------------------------------------------

typedef uint64_t __attribute__((may_alias)) word;

#if SANITIZED && defined(__x86_64__)
static inline uint64_t load(uintptr_t address) {
    uint64_t value;
    __asm__("movq (%1), %0" : "=r"(value) : "r"(address) : "memory");
    return value;
}
#else
static inline uint64_t load(uintptr_t address) {
    return *(const word *)address;
}
#endif

// Whether an address is known to be of the thread's own stack.
static inline int is_known(const struct ct_capture *c, uintptr_t address) {
    return c->high && address >= c->low && address < c->high;
}

// ---- walk -------------------------------------------------------------------------------------

// A frame. Its rbp is what it was when the frame made its call: in `rbp`, or still at `rbp_at`. No word lies at `end` or
// above.
struct at {
    uintptr_t base, pc, sp, rbp, rbp_at, end;
};

static void fix(struct ct_capture *c, const struct at *f, uintptr_t address, uint64_t value) {
    if (c->n_fixed < MOST_FIXED)
        c->fixed[c->n_fixed++] = (struct fixed){address - f->base, value};
}

#define FAR \
    (16u << 20) // above a frame: as far as one is followed where the end of the stack is not known

// Whether `address` may be one of the frame.
static inline int is_above(const struct at *f, uintptr_t address) {
    return address >= f->sp && address < f->end;
}

static __attribute__((noinline)) unsigned learn(struct ct_ring *ring, uintptr_t pc) {
    const int saved = errno;
    const unsigned rule = libunwind_enter(ring) ? CT_RULE_OTHER : ct_rule_learn(pc);
    libunwind_leave(ring);
    self.learned = 1;
    errno = saved;
    return rule;
}

// Makes the frame its caller. Returns 1, 0 if there is none, -1 if it is not known, -2 if the frame has no simple rule.
enum { OTHER = CT_RULE_OTHER - CT_RULE_END, LOST = CT_RULE_LOST - CT_RULE_END };
static inline int step(struct ct_ring *ring, struct ct_capture *c, _Atomic uint64_t *rules,
                       struct at *f) {
    unsigned rule = ct_rule(rules, f->pc);
    uintptr_t cfa;
    if (__builtin_expect(rule == CT_RULE_NONE, 0))
        rule = learn(ring, f->pc);
    if (__builtin_expect(CT_RULE_IS_RSP(rule), 1)) {
        cfa = f->sp + CT_RULE_SIZE(rule);
        if (CT_RULE_RBP(rule))
            f->rbp_at = cfa - CT_RULE_RBP(rule) * 8;
    } else {
        if (rule <= CT_RULE_END)
            return (int)rule - CT_RULE_END;
        if (f->rbp_at) {
            f->rbp = load(f->rbp_at);
            if (atomic_load_explicit(&ct_capture_fault, memory_order_relaxed) !=
                CT_FAULT_FRAME_POINTER)
                fix(c, f, f->rbp_at, f->rbp);
        }
        if (!is_above(f, f->rbp))
            return OTHER;
        uintptr_t saved_at = f->rbp;
        cfa = f->rbp + 16;
        if (CT_RULE_IS_RBP(rule)) {
            cfa = f->rbp + CT_RULE_SIZE(rule);
            saved_at = cfa - 16;
        } else if (rule != CT_RULE_FRAME) {
            const uintptr_t at = f->rbp - (rule - CT_RULE_ALIGNED) * 8;
            if (!is_above(f, at))
                return OTHER;
            cfa = load(at);
            fix(c, f, at, cfa);
        }
        f->rbp_at = saved_at;
    }
    if (!is_above(f, cfa - 8))
        return OTHER;
    f->sp = cfa;
    f->pc = load(cfa - 8);
    return 1;
}

// Puts the program's frames into c->frame, and all that led to them into c->offset and c->fixed. Returns 0, or -1: not
// all frames have rules.
static int walk(struct ct_ring *ring, struct ct_capture *c, const struct at *from) {
    struct at f = *from;
    _Atomic uint64_t *const rules = atomic_load_explicit(&ct_rules, memory_order_relaxed);
    const size_t most = depth();
    int rc = 1;
    f.end = is_known(c, f.base) ? c->high : f.base + FAR;
    c->n = c->n_fixed = 0;
    c->end = 0;
    if (__builtin_expect(!rules, 0))
        return -1;
    for (unsigned own = 0; rc > 0 && own < 32;) {
        const uint32_t offset = (uint32_t)(f.sp - 8 - f.base);
        c->offset[c->n] = offset;
        if (__builtin_expect(is_own(f.pc) || is_no_code(f.pc) || c->n == most, 0)) {
            if (offset) // the first one is what a shape begins with
                fix(c, &f, f.sp - 8, f.pc);
            own++;
            if (is_no_code(f.pc))
                return 0;
            if (c->n == most && !is_own(f.pc)) {
                c->end = ct_frame_word_end(CT_STACK_DEEPER);
                return 0;
            }
        } else {
            c->frame[c->n++] = f.pc;
        }
        rc = step(ring, c, rules, &f);
    }
    c->offset[c->n] = c->n ? c->offset[c->n - 1] : 0; // its frame is the thread's first
    if (rc == LOST)
        c->end = ct_frame_word_end(CT_STACK_LOST);
    return rc && rc != LOST ? -1 : 0;
}

// ---- the thread's own stack ---------------------------------------------------------------------

#define PAGE 4096u
#define FROM_LAST_FRAME (256u * PAGE) // to the end of the stack: thread-local storage, arguments

// As in unwind_memory.c: asks the kernel, which changes nothing.
long ct_unw_syscall(long number, int fd, const void *from, size_t n);

// Whether the pages between two addresses that can be read can be read, too.
static int is_one_piece(uintptr_t from, uintptr_t to) {
    if (to < from || to - from > FROM_LAST_FRAME)
        return 0;
    for (uintptr_t page = (from | (PAGE - 1)) + 1; page < (to & ~(uintptr_t)(PAGE - 1));
         page += PAGE)
        if (ct_unw_syscall(0, 0, (const void *)page, 1) != 1)
            return 0;
    return 1;
}

// Where the thread's own stack ends: below the thread's control block, for which it was made in one piece with the
// stack, or where the kernel has put what a program begins with.
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

// Whether everything from a frame up is the thread's own stack, in one piece. That is so if each frame lies less than a
// page above the one before (or all pages between them can be read: there is no guard page), up to one for which it is
// known, or to the last one, with no hole from there to the end of the stack.
static __attribute__((noinline)) int in_own_stack(struct ct_ring *ring, struct ct_capture *c,
                                                  const struct at *from) {
    struct at f = *from;
    _Atomic uint64_t *const rules = atomic_load(&ct_rules);
    const uint32_t n_fixed = c->n_fixed; // the walk's, which are still needed
    int rc = 1;
    f.end = f.base + FAR;
    for (int i = 0; i < 4096 && rc > 0 && !is_known(c, f.sp - 8); i++) {
        const uintptr_t before = f.sp - 8;
        rc = step(ring, c, rules, &f);
        if (rc > 0 && !is_one_piece(before, f.sp - 8))
            rc = OTHER;
    }
    c->n_fixed = n_fixed;
    if (rc == 0 && is_one_piece(f.sp - 8, stack_end(ring)))
        c->high = stack_end(ring);
    else if (rc <= 0 || !is_known(c, f.sp - 8))
        return 0;
    c->low = f.base;
    return 1;
}

// Not every time where the answer is no (the stacks of fibers): it is not cheap.
static int may_remember(struct ct_ring *ring, struct ct_capture *c, const struct at *f) {
    if (is_known(c, f->base))
        return 1;
    if (c->pause) {
        c->pause--;
        return 0;
    }
    const int saved = errno, found = in_own_stack(ring, c, f);
    errno = saved;
    if (found)
        return 1;
    c->pause = c->next_pause;
    c->next_pause = c->next_pause < 1u << 16 ? c->next_pause * 2 + 16 : c->next_pause;
    return 0;
}

// ---- what is remembered -------------------------------------------------------------------------

static inline struct shape *shape_at(struct ct_capture *c, uint32_t place) {
    return (struct shape *)(void *)&c->shapes[place];
}

static inline uint32_t *offsets_of(struct shape *s) {
    return (uint32_t *)(void *)(s->word + s->fixed);
}

static inline uint32_t *start_of(struct ct_capture *c, uintptr_t pc, uintptr_t base) {
    return &c->start[((pc ^ base << 13) * UINT64_C(0x9E3779B97F4A7C15)) >> 54];
}

// Two that may be it, side by side.
static inline struct memo *memo_of(struct ct_capture *c, uint64_t hash, uint32_t shape) {
    return &c->memo[(hash ^ shape * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (MEMOS - 2)];
}

static void forget(struct ct_capture *c) {
    memset(c->seen, 0, sizeof c->seen);
    memset(c->start, 0, sizeof c->start);
    memset(c->memo, 0, sizeof c->memo);
    c->used = 1; // place 0 is none
}

static inline int starts(const struct shape *s, const struct at *f) {
    return s->pc == f->pc && s->base == f->base;
}

static inline int fixed_words_are(const struct shape *s) {
    for (uint32_t i = 0; i < s->fixed; i++)
        if (load(s->base + s->word[i].offset) != s->word[i].value)
            return 0;
    return 1;
}

// A hash of the return addresses, in which the first one stands for what is missing to a whole step.
static inline uint64_t hash_of(struct shape *s) {
    const uintptr_t base = s->base;
    const uint32_t *at = offsets_of(s), *const end = at + s->frames;
    struct ct_stack_hash h = ct_stack_hash_begin(s->frames);
#define AT(k) load(base + at[k])
    for (; at < end; at += CT_STACK_STEP)
        ct_stack_hash_step(&h, AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7));
#undef AT
    return ct_stack_hash_end(&h);
}

static inline uint32_t recall(struct ct_capture *c, const struct at *f) {
    for (uint32_t place = *start_of(c, f->pc, f->base); place;) {
        struct shape *const s = shape_at(c, place);
        if (starts(s, f) && fixed_words_are(s)) {
            const uint64_t hash = hash_of(s);
            const struct memo *const m = memo_of(c, hash, place);
            for (unsigned i = 0; i < 2; i++)
                if (m[i].hash == hash && m[i].shape == place)
                    return m[i].stack;
        }
        place = s->next;
    }
    return 0;
}

static int shape_is(struct shape *s, const struct ct_capture *c, const struct at *f) {
    return starts(s, f) && s->frames == c->n && s->fixed == c->n_fixed &&
           !memcmp(s->word, c->fixed, c->n_fixed * sizeof *c->fixed) &&
           !memcmp(offsets_of(s), c->offset, c->n * sizeof *c->offset);
}

static uint32_t shape_make(struct ct_capture *c, const struct at *f) {
    const size_t offsets = (c->n + CT_STACK_STEP - 1) / CT_STACK_STEP * CT_STACK_STEP;
    const uint32_t words = (uint32_t)((sizeof(struct shape) + c->n_fixed * sizeof *c->fixed +
                                       offsets * sizeof *c->offset) /
                                      8);
    if (c->used + words > SHAPES_BYTES / 8)
        forget(c);
    const uint32_t place = c->used;
    uint32_t *const start = start_of(c, f->pc, f->base);
    unsigned others = 0;
    for (uint32_t at = *start; at; at = shape_at(c, at)->next)
        others++;
    if (others >= MOST_OF_A_START)
        *start = 0; // they are never found again
    struct shape *s = shape_at(c, place);
    c->used += words;
    *s = (struct shape){*start, (uint16_t)c->n, (uint16_t)c->n_fixed, f->base, f->pc};
    memcpy(s->word, c->fixed, c->n_fixed * sizeof *c->fixed);
    memset(offsets_of(s), 0, offsets * sizeof *c->offset);
    memcpy(offsets_of(s), c->offset, c->n * sizeof *c->offset);
    *start = place;
    return place;
}

// The walk that was just done.
static __attribute__((noinline)) void remember(struct ct_ring *ring, struct ct_capture *c,
                                               const struct at *f, uint32_t id) {
    uint32_t *const seen = &c->seen[id * 0x9E3779B1u >> 22];
    if (*seen != id) {
        *seen = id;
        return;
    }
    if (c->n_fixed == MOST_FIXED || !may_remember(ring, c, f))
        return;
    uint32_t place = *start_of(c, f->pc, f->base);
    while (place && !shape_is(shape_at(c, place), c, f))
        place = shape_at(c, place)->next;
    if (!place)
        place = shape_make(c, f);
    const uint64_t hash = hash_of(shape_at(c, place));
    struct memo *m = memo_of(c, hash, place);
    m[1] = m[0];
    m[0] = (struct memo){hash, place, id};
}

// ---- capture ------------------------------------------------------------------------------------

static __attribute__((noinline)) struct ct_capture *capture_new(void) {
    struct ct_capture *c = ct_pages(sizeof *c);
    if (c)
        c->used = 1;
    return c;
}

static void capture_free(struct ct_capture *capture) {
    if (capture && capture->mixed)
        ct_pages_free(capture->mixed, sizeof *capture->mixed);
    if (capture)
        ct_pages_free(capture, sizeof *capture);
}

// The ring was another thread's, which has ended.
static void hand_on(struct ct_capture *c, uint32_t claim) {
    forget(c);
    c->low = c->high = 0;
    c->pause = c->next_pause = 0;
    c->claim = claim;
}

static inline void count(_Atomic uint64_t *counter) { // of this thread alone
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static int unwind_inside(struct ct_ring *ring, uintptr_t *sp, uintptr_t pc, int slowly) {
    struct ct_capture *const c = ring->capture;
    const int busy = libunwind_enter(ring);
    c->n = 0;
    c->end = 0;
    if (!busy)
        unwind(c, sp, pc, slowly);
    libunwind_leave(ring);
    return busy ? -EBUSY : 0;
}

static __attribute__((noinline)) uint32_t capture_by_libunwind(struct ct_ring *ring, uintptr_t pc) {
    count(&ring->capture->unwound);
    return unwind_inside(ring, NULL, pc, 0) ? 0 : intern(ring->capture);
}

// What a shortcut has told against libunwind's slow way, which has no shortcuts.
static __attribute__((noinline)) uint32_t check(struct ct_ring *ring, uintptr_t pc, uint32_t id) {
    struct ct_capture *const c = ring->capture;
    const struct ct_stack_entry *const e = ct_stack_entry(id);
    if (!e || unwind_inside(ring, NULL, pc, 1))
        return id;
    count(&c->checks);
    const size_t words = c->n + (c->end != 0);
    c->frame[c->n] = c->end;
    if (words == e->frames && !memcmp(c->frame, e->frame, words * sizeof *c->frame))
        return id;
    count(&c->mismatches);
    atomic_store(&no_shortcuts, 1);
    new_epoch();
    return intern(c);
}

static __attribute__((noinline)) uint32_t capture_by_rules(struct ct_ring *ring,
                                                           const struct at *f) {
    struct ct_capture *const c = ring->capture;
    if (walk(ring, c, f))
        return capture_by_libunwind(ring, f->pc);
    if (atomic_load_explicit(&ct_capture_fault, memory_order_relaxed) == CT_FAULT_SLOT && c->n > 2)
        c->frame[c->n / 2] ^= 16;
    count(&c->walked);
    const uint32_t id = intern(c);
    if (id && c->end != ct_frame_word_end(CT_STACK_LOST))
        remember(ring, c, f, id);
    return id;
}

static inline uint32_t capture(struct ct_ring *ring, const struct at *f) {
    struct ct_capture *const c = ring->capture;
    uint32_t id = recall(c, f);
    if (__builtin_expect(id != 0, 1))
        count(&c->recalled);
    else
        id = capture_by_rules(ring, f);
    if (__builtin_expect(check_every && ++c->since_check >= check_every, 0)) {
        c->since_check = 0;
        id = check(ring, f->pc, id);
    }
    return id;
}

// ---- with Python frames -------------------------------------------------------------------------

// The native frames with their stack pointers, in c->frame and m->sp.
static int find_places(struct ct_ring *ring, struct mixed *m, const struct at *f) {
    struct ct_capture *const c = ring->capture;
    if (atomic_load(&no_shortcuts) || walk(ring, c, f))
        return unwind_inside(ring, m->sp, f->pc, 1);
    for (uint32_t i = 0; i <= c->n; i++)
        m->sp[i] = f->base + c->offset[i] + 8;
    return 0;
}

// Where more frames were there than are kept, the one that begins the last one's loop may lie further on.
static void find_last_anchor(struct ct_ring *ring, struct mixed *m, size_t n) {
    uint64_t hash;
    int more;
    const size_t all = ct_python_walk(ring, m->python, CT_MAX_STACK, &hash, &more);
    for (size_t i = n - 1; i < all && !m->anchor[n - 1]; i++)
        m->anchor[n - 1] = m->python[i].anchor;
}

// The stack of the n Python frames that were just walked, and of the native frames if there is an id of them. 0 if one of
// them cannot be told now (another time it may be): then the native stack has to do, and nothing is remembered.
static __attribute__((noinline)) uint32_t mix(struct ct_ring *ring, const struct at *f,
                                              uint32_t native, size_t n, int more) {
    struct ct_capture *const c = ring->capture;
    struct mixed *const m = c->mixed;
    const struct ct_python_frames python = {m->word, m->anchor, n, more};
    struct ct_native_frames frames = {.pc = c->frame, .sp = m->sp};
    for (size_t i = 0; i < n; i++) {
        m->anchor[i] = m->python[i].anchor;
        if (!(m->word[i] = ct_python_word(ring, &m->python[i])))
            return 0;
    }
    if (more)
        find_last_anchor(ring, m, n);
    if (native) {
        if (find_places(ring, m, f))
            return 0;
        frames.n = c->n;
        frames.end = c->end;
    }
    return ct_stack_intern(m->merged,
                           ct_interleave(m->merged, depth(), &frames, &python, ct_python_is_loop));
}

static struct mixed *mixed_of(struct ct_capture *c) {
    if (__builtin_expect(!c->mixed, 0))
        c->mixed = ct_pages(sizeof *c->mixed);
    return c->mixed;
}

// The stack with the thread's Python frames, if it has any; else 0.
static inline uint32_t capture_python(struct ct_ring *ring, const struct at *f, uint32_t native) {
    struct mixed *const m = mixed_of(ring->capture);
    uint64_t hash;
    int more;
    const size_t n = m ? ct_python_walk(ring, m->python, depth(), &hash, &more) : 0;
    if (!n)
        return 0;
    const uint64_t key =
        ct_stack_mix(hash ^ UINT64_C(0x2127599BF4325C37), native ^ UINT64_C(0x880355F21E6D1965)) |
        1;
    uint32_t id = ct_stack_alias(key);
    if (__builtin_expect(!id, 0) && (id = mix(ring, f, native, n, more)))
        ct_stack_set_alias(key, id);
    return id;
}

static __attribute__((noinline)) uint32_t capture_mixed(struct ct_ring *ring, const struct at *f,
                                                        int light) {
    const int both = CT_NUMBER(STACKS) == CT_STACKS_OF_BOTH && !light;
    uint32_t id = both ? 0 : capture_python(ring, f, 0);
    if (id)
        return id;
    const uint32_t native =
        atomic_load(&no_shortcuts) ? capture_by_libunwind(ring, f->pc) : capture(ring, f);
    if (both)
        id = capture_python(ring, f, native);
    return id ? id : native;
}

static int (*_Atomic prepare)(void);

void ct_capture_set_prepare(int (*function)(void)) {
    atomic_store(&prepare, function);
}

static inline int is_on(void) {
    int (*const function)(void) = atomic_load(&prepare);
    return function && function() && CT_NUMBER(STACKS) != CT_STACKS_OF_OFF &&
           !atomic_load_explicit(&off, memory_order_relaxed);
}

static inline uint32_t capture_now(const struct at *f, int light) {
    return __builtin_expect(!atomic_load_explicit(&with_python, memory_order_relaxed), 1)
               ? capture(self.ring, f)
               : capture_mixed(self.ring, f, light);
}

// Whatever is not done at each capture.
static __attribute__((noinline)) uint32_t capture_slowly(const struct at *f, int light) {
    struct ct_ring *const ring = is_on() ? ct_ring_claim() : NULL; // `prepare` sets up the unwinder
    struct ct_capture *c = ring ? ring->capture : NULL;
    if (ring && !c)
        ring->capture = c = capture_new();
    if (!c)
        return 0;
    if (c->claim != ring->claim)
        hand_on(c, ring->claim);
    const uint32_t now = atomic_load(&unloaded);
    if (c->generation != now) {
        forget(c);
        c->generation = now;
    }
    const uint32_t number = epoch_now();
    if (atomic_load(&no_shortcuts)) // as long as that is so, this is the way
        return atomic_load(&with_python) ? capture_mixed(ring, f, light)
                                         : capture_by_libunwind(ring, f->pc);
    self.ring = ring;
    self.number = number;
    return capture_now(f, light);
}

// For this, libunwind has asked the loader just now, and there may be an interpreter that was not there before.
static __attribute__((noinline)) uint32_t look_again(const struct at *f, uint32_t id, int light) {
    const int saved = errno;
    self.learned = 0;
    if (atomic_load(&with_python) || !id)
        return id;
    ct_stacks_look();
    errno = saved;
    return atomic_load(&with_python) ? capture_mixed(ct_ring_claim(), f, light) : id;
}

static inline uint32_t stack_at(const struct at *f, int light) {
    if (self.busy)
        return 0;
    self.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    const uint32_t number = epoch_now();
    uint32_t id = __builtin_expect(self.number == number && number, 1) ? capture_now(f, light)
                                                                       : capture_slowly(f, light);
    if (__builtin_expect(self.learned, 0))
        id = look_again(f, id, light);
    atomic_signal_fence(memory_order_seq_cst);
    self.busy = 0;
    return id;
}

// Our own frame pointer is kept: the caller's lies there, and the return address behind it.
#define CALLER(frame)                                                                   \
    {                                                                                   \
        .base = (uintptr_t) & (frame)[1], .pc = (uintptr_t)__builtin_return_address(0), \
        .sp = (uintptr_t) & (frame)[2], .rbp_at = (uintptr_t) & (frame)[0]              \
    }

__attribute__((noinline)) uint32_t ct_stack(void) {
    const uintptr_t *const frame = __builtin_frame_address(0);
    const struct at f = CALLER(frame);
    return stack_at(&f, 0);
}

__attribute__((noinline)) uint32_t ct_light_stack(void) {
    const uintptr_t *const frame = __builtin_frame_address(0);
    const struct at f = CALLER(frame);
    return stack_at(&f, 1);
}

// ---- moments ------------------------------------------------------------------------------------

void ct_stacks_init(void) {
    unw_context_t context;
    unw_cursor_t cursor;
    unw_getcontext(&context);
    (void)unw_init_local(&cursor, &context);
    find_own();
    ct_rules_init();
    check_every = CT_NUMBER(CHECK_STACKS);
    ct_modules_on_unload(ct_capture_unloaded);
    _Atomic uint32_t *mark = ct_pages(PAGE);
    if (mark && !madvise(mark, PAGE, MADV_WIPEONFORK))
        atomic_store(&epoch, mark);
    new_epoch();
}

static int count_loaded(struct dl_phdr_info *info, size_t size, void *loaded) {
    (void)size;
    *(uint64_t *)loaded = info->dlpi_adds;
    return 1;
}

// At the start, by the writer, and where code was met for the first time, for which libunwind has asked the loader just now.
void ct_stacks_look(void) {
    static _Atomic uint64_t seen;
    uint64_t loaded = 0;
    const uint32_t wanted = (uint32_t)CT_NUMBER(STACKS);
    if ((wanted != CT_STACKS_OF_BOTH && wanted != CT_STACKS_OF_PYTHON) ||
        atomic_load(&with_python) || ct_loader_enter())
        return;
    (void)dl_iterate_phdr(count_loaded, &loaded);
    ct_loader_leave();
    if (atomic_load(&seen) == loaded)
        return;
    const int found = ct_python_find();
    if (found < 0)
        return; // what was loaded is still to be looked at
    atomic_store(&seen, loaded);
    if (found)
        atomic_store(&with_python, 1);
}

void ct_capture_unloaded(void) {
    ct_rules_forget();
    unw_flush_cache(unw_local_addr_space, 0, 0);
    atomic_fetch_add(&unloaded, 1);
    new_epoch();
}

struct ct_capture_counts ct_capture_counts(void) {
    struct ct_capture_counts sum = {.mismatches = 0};
    for (const struct ct_ring *r = ct_rings(); r; r = r->next) {
        const struct ct_capture *const c = r->capture;
        if (!c)
            continue;
        sum.recalled += atomic_load_explicit(&c->recalled, memory_order_relaxed);
        sum.walked += atomic_load_explicit(&c->walked, memory_order_relaxed);
        sum.unwound += atomic_load_explicit(&c->unwound, memory_order_relaxed);
        sum.checks += atomic_load_explicit(&c->checks, memory_order_relaxed);
        sum.mismatches += atomic_load_explicit(&c->mismatches, memory_order_relaxed);
    }
    return sum;
}

void ct_capture_info(void) {
    const struct ct_capture_counts n = ct_capture_counts();
    ct_info_set("recorder.stacks_recalled", "%lu", n.recalled);
    ct_info_set("recorder.stacks_walked", "%lu", n.walked);
    ct_info_set("recorder.stacks_unwound", "%lu", n.unwound);
    ct_python_info();
    if (!check_every)
        return;
    ct_info_set("recorder.stack_checks", "%lu", n.checks);
    ct_info_set("recorder.stack_mismatches", "%lu", n.mismatches);
}

// ---- fork ---------------------------------------------------------------------------------------

int ct_stacks_busy(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        if (atomic_load(&r->unwinding))
            return 1;
    return 0;
}

int ct_stacks_hold(void) {
    const struct timespec pause = {0, 100000};
    atomic_store(&held, 1);
    for (int i = 0; i < 200; i++) {
        if (!ct_stacks_busy())
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_stacks_release(void) {
    atomic_store(&held, 0);
}

void ct_capture_forked(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next) {
        capture_free(r->capture);
        r->capture = NULL;
    }
    ct_python_forked();
    self.busy = 0;
    new_epoch();
}

void ct_stacks_off(void) {
    atomic_store(&off, 1);
    new_epoch();
}

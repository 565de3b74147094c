// SPDX-License-Identifier: Apache-2.0
// Capturing the calling thread's stack: the entry points, and the moments at which what is known
// becomes void.
//
// The native stack comes from the first of these that can tell:
// 1. Recall: the stack is known from an earlier walk (stack_cache.h).
// 2. A walk by rules: each frame has one of a few simple rules (walk.h, unwind_rules.h).
// 3. libunwind: a frame has no simple rule (signal frames, unusual code). It is also the reference
//    that the self-check compares with (unwind.h).
// Where there is no unwind information the stack ends with a mark: libunwind would go on by
// guessing.
//
// Python frames are walked at each capture (python_walk.h). The hash of the Python frames and the
// id of the native stack together find the merged stack. Only a new one is merged (merge_python.h).
#include "stack/capture.h"

#include <errno.h>
#include <string.h>

#include <cutrace/format/assert.h>

#include "base/loader_gate.h"
#include "base/options.h"
#include "base/pages.h"
#include "stack/enclosing.h"
#include "stack/merge_python.h"
#include "stack/own_code.h"
#include "stack/python_find.h"
#include "stack/python_walk.h"
#include "stack/stack_cache.h"
#include "stack/thread_stack.h"
#include "stack/unwind.h"
#include "stack/unwind_rules.h"
#include "stack/walk.h"
#include "store/loaded_modules.h"
#include "store/ring.h"
#include "store/stack_hash.h"
#include "store/stack_table.h"
#include "write/info_table.h"

// Buffers for merging a stack of Python and native frames. `sp` is of the native ones.
struct merge_buffers {
    struct ct_python_frame python[CT_MAX_STACK];
    uintptr_t anchor[CT_MAX_STACK];
    uint64_t word[CT_MAX_STACK];
    uintptr_t sp[CT_WALK_FRAMES];
    uint64_t merged[CT_MAX_STACK + 1];
};

// What a thread knows of its stacks. `claim` is that of the ring as of the last capture;
// `generation` is that of the code (code_generation) as of the last capture; `since_check` counts
// captures since the last self-check; `merge` is NULL until the thread has Python frames.
struct ct_capture {
    uint32_t claim;
    uint32_t generation;
    struct ct_thread_stack own_stack;
    uint64_t since_check;
    _Atomic uint64_t recalled, walked, unwound, checks, mismatches;
    struct merge_buffers *merge;
    struct ct_stack_cache cache;
    struct ct_walk walk;
};

// What a thread needs to know at each capture. Invariant: while `epoch` equals the current epoch,
// stacks are on, `ring` is this thread's ring in this process, ring->capture is there and as new as
// the code is, and shortcuts are allowed.
static __thread struct {
    uint32_t epoch;
    uint32_t learned; // the capture has met code for the first time
    uintptr_t busy;   // the frame of a capture that is under way, 0: none
    struct ct_ring *ring;
} self __attribute__((tls_model("initial-exec")));

static _Atomic int is_disabled;
static _Atomic int no_shortcuts; // libunwind only, since the self-check has found a difference
static _Atomic int with_python;  // there is an interpreter, and its frames are wanted
static _Atomic uint32_t code_generation; // counts unloaded shared objects
static uint64_t check_every;             // captures; 0: never

// ---- epochs -------------------------------------------------------------------------------------

// A new epoch begins when a shared object is unloaded, stacks are switched off, or the process is a
// forked child. The current epoch lies on a page that is zero in a child, even in one whose fork
// handlers do not run. It is 0 there until the child's first capture, and 0 equals no thread's
// epoch.
static _Atomic uint32_t first_epoch;
static _Atomic uint32_t *_Atomic current_epoch = &first_epoch;

// Never 0, and never a number that was used before.
static _Atomic uint32_t epochs;
static void begin_epoch(void) {
    atomic_store(atomic_load(&current_epoch), atomic_fetch_add(&epochs, 1) + 1);
}

static inline uint32_t read_epoch(void) {
    return atomic_load_explicit(atomic_load_explicit(&current_epoch, memory_order_acquire),
                                memory_order_relaxed);
}

// ---- native stacks ------------------------------------------------------------------------------

static __attribute__((noinline)) struct ct_capture *capture_new(uint32_t claim) {
    struct ct_capture *c = ct_pages_map(sizeof *c);
    if (c) {
        c->cache.used = 1; // an empty cache
        c->claim = claim;
    }
    return c;
}

static void capture_free(struct ct_capture *capture) {
    if (!capture)
        return;
    ct_pages_unmap(capture->merge, sizeof *capture->merge);
    ct_pages_unmap(capture, sizeof *capture);
}

// The ring has passed from a thread that has ended to the calling thread, whose stack is another
// one.
static void reset_for_thread(struct ct_capture *c, uint32_t claim) {
    ct_stack_cache_clear(&c->cache);
    c->own_stack = (struct ct_thread_stack){.high = 0}; // T3
    c->claim = claim;
}

// A counter has one writer, the thread itself.
static inline void count(_Atomic uint64_t *counter) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static uint32_t intern_walk(struct ct_walk *w) {
    w->frame[w->n] = w->end;
    return ct_stack_table_intern(w->frame, w->n + (w->end != 0));
}

static __attribute__((noinline)) uint32_t capture_by_libunwind(struct ct_ring *ring, uintptr_t pc) {
    struct ct_capture *const c = ring->capture;
    count(&c->unwound);
    return ct_unwind_stack(ring, &c->walk, NULL, pc, 0) ? 0 : intern_walk(&c->walk);
}

static int walk_by_rules(struct ct_ring *ring, const struct ct_walk_frame *f) {
    struct ct_capture *const c = ring->capture;
    return ct_walk_stack(ring, &c->walk, f, ct_thread_stack_end(&c->own_stack, f->base));
}

// Remembers the walk that was just done, if it is the second of this stack.
static __attribute__((noinline)) void remember(struct ct_ring *ring, struct ct_capture *c,
                                               const struct ct_walk_frame *f, uint32_t id) {
    if (!ct_stack_cache_is_second(&c->cache, id) || c->walk.inputs == CT_WALK_INPUTS ||
        !ct_thread_stack_find(&c->own_stack, ring, &c->walk, f))
        return;
    CT_ASSERT(ct_thread_stack_has(&c->own_stack, f->base + c->walk.offset[c->walk.n])); // R7
    ct_stack_cache_add(&c->cache, &c->walk, f, id);
}

static __attribute__((noinline)) uint32_t capture_by_rules(struct ct_ring *ring,
                                                           const struct ct_walk_frame *f) {
    struct ct_capture *const c = ring->capture;
    struct ct_walk *const w = &c->walk;
    uint32_t id;
    if (walk_by_rules(ring, f)) {
        id = capture_by_libunwind(ring, f->pc);
    } else {
        count(&c->walked);
        id = intern_walk(w);
        if (id && w->end != ct_frame_word_end(CT_STACK_LOST))
            remember(ring, c, f, id);
    }
    self.learned |= w->learned;
    w->learned = 0;
    return id;
}

// Compares the stack that a shortcut (recall, rules) gave with that of libunwind's slow way, which
// has no shortcuts. After the first difference there are no shortcuts any more. Returns the right
// one.
static __attribute__((noinline)) uint32_t check(struct ct_ring *ring, uintptr_t pc, uint32_t id) {
    struct ct_capture *const c = ring->capture;
    struct ct_walk *const w = &c->walk;
    const struct ct_stack_entry *const e = ct_stack_table_get(id);
    if (!e || ct_unwind_stack(ring, w, NULL, pc, 1))
        return id;
    count(&c->checks);
    const size_t words = w->n + (w->end != 0);
    w->frame[w->n] = w->end;
    if (words == e->frames && !memcmp(w->frame, e->frame, words * sizeof *w->frame))
        return id;
    count(&c->mismatches);
    atomic_store(&no_shortcuts, 1);
    begin_epoch();
    return intern_walk(w);
}

static inline uint32_t capture_native(struct ct_ring *ring, const struct ct_walk_frame *f) {
    struct ct_capture *const c = ring->capture;
    uint32_t id = ct_stack_cache_recall(&c->cache, f);
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

// ---- stacks with Python frames ------------------------------------------------------------------

// Puts the native frames into c->walk and their stack pointers into `sp`.
static int walk_with_stack_pointers(struct ct_ring *ring, uintptr_t *sp,
                                    const struct ct_walk_frame *f) {
    struct ct_walk *const w = &ring->capture->walk;
    if (atomic_load(&no_shortcuts) || walk_by_rules(ring, f))
        return ct_unwind_stack(ring, w, sp, f->pc, 1);
    for (uint32_t i = 0; i <= w->n; i++)
        sp[i] = f->base + w->offset[i] + 8;
    return 0;
}

// The thread has more Python frames than the n that are kept, and the frame that has the anchor of
// the n-th one's activation may be among the others: walks once more, further.
static void find_last_anchor(struct ct_ring *ring, struct merge_buffers *m, size_t n) {
    uint64_t hash;
    int more;
    const size_t all = ct_python_walk(ring, m->python, CT_MAX_STACK, &hash, &more);
    for (size_t i = n - 1; i < all && !m->anchor[n - 1]; i++)
        m->anchor[n - 1] = m->python[i].anchor;
}

// Merges the n Python frames that were just walked with the native frames, if `native` is an id.
// Returns 0 if one of them cannot be described now, but perhaps later: then the native stack has to
// do, and the caller remembers nothing.
static __attribute__((noinline)) uint32_t merge_stacks(struct ct_ring *ring,
                                                       const struct ct_walk_frame *f,
                                                       uint32_t native, size_t n, int more) {
    struct ct_walk *const w = &ring->capture->walk;
    struct merge_buffers *const m = ring->capture->merge;
    const struct ct_python_frames python = {m->word, m->anchor, n, more};
    struct ct_native_frames frames = {.pc = w->frame, .sp = m->sp};
    for (size_t i = 0; i < n; i++) {
        m->anchor[i] = m->python[i].anchor;
        if (!(m->word[i] = ct_python_intern_frame(ring, &m->python[i])))
            return 0;
    }
    if (more)
        find_last_anchor(ring, m, n);
    if (native) {
        const int failed = walk_with_stack_pointers(ring, m->sp, f);
        self.learned |= w->learned;
        w->learned = 0;
        if (failed)
            return 0;
        frames.n = w->n;
        frames.end = w->end;
    }
    return ct_stack_table_intern(m->merged, ct_merge_python(m->merged, ct_walk_depth(), &frames,
                                                            &python, ct_python_is_eval_loop));
}

// The stack of the thread's Python frames and of the native stack `native`, or 0 if the thread has
// no Python frames.
static inline uint32_t capture_python(struct ct_ring *ring, const struct ct_walk_frame *f,
                                      uint32_t native) {
    struct ct_capture *const c = ring->capture;
    if (__builtin_expect(!c->merge, 0))
        c->merge = ct_pages_map(sizeof *c->merge);
    struct merge_buffers *const m = c->merge;
    uint64_t hash;
    int more;
    const size_t n = m ? ct_python_walk(ring, m->python, ct_walk_depth(), &hash, &more) : 0;
    if (!n)
        return 0;
    const uint64_t key = ct_stack_hash_mix(hash ^ UINT64_C(0x2127599BF4325C37),
                                           native ^ UINT64_C(0x880355F21E6D1965)) |
                         1;
    uint32_t id = ct_stack_table_find_alias(key);
    if (__builtin_expect(!id, 0) && (id = merge_stacks(ring, f, native, n, more)))
        ct_stack_table_add_alias(key, id);
    return id;
}

// With `python_only`, or if the option asks for it, native frames are captured only where there are
// no Python frames.
static __attribute__((noinline)) uint32_t capture_with_python(struct ct_ring *ring,
                                                              const struct ct_walk_frame *f,
                                                              int python_only) {
    const int both = CT_OPTION_NUMBER(STACKS) == CT_STACKS_OF_BOTH && !python_only;
    uint32_t id = both ? 0 : capture_python(ring, f, 0);
    if (id)
        return id;
    const uint32_t native =
        atomic_load(&no_shortcuts) ? capture_by_libunwind(ring, f->pc) : capture_native(ring, f);
    if (both)
        id = capture_python(ring, f, native);
    return id ? id : native;
}

// ---- entry points -------------------------------------------------------------------------------

static int (*_Atomic prepare)(void);

void ct_capture_set_prepare(int (*function)(void)) {
    atomic_store(&prepare, function);
}

static int is_on(void) {
    int (*const function)(void) = atomic_load(&prepare);
    return function && function() && CT_OPTION_NUMBER(STACKS) != CT_STACKS_OF_OFF &&
           !atomic_load_explicit(&is_disabled, memory_order_relaxed);
}

// Needs what the invariant of `self` says.
static inline uint32_t capture_in_epoch(const struct ct_walk_frame *f, int python_only) {
    CT_ASSERT(self.ring == ct_ring_claimed() && self.ring->capture);
    if (__builtin_expect(!atomic_load_explicit(&with_python, memory_order_relaxed), 1))
        return capture_native(self.ring, f);
    return capture_with_python(self.ring, f, python_only);
}

// Finds out what the fast path needs to know, and captures.
static __attribute__((noinline)) uint32_t enter_epoch_and_capture(const struct ct_walk_frame *f,
                                                                  int python_only) {
    struct ct_ring *const ring = is_on() ? ct_ring_claim() : NULL;
    struct ct_capture *c = ring ? ring->capture : NULL;
    if (ring && !c)
        ring->capture = c = capture_new(ring->claim);
    if (!c)
        return 0;
    if (c->claim != ring->claim)
        reset_for_thread(c, ring->claim);
    // Read before code_generation and no_shortcuts, which change before an epoch begins, and after
    // is_on, which may begin one.
    const uint32_t epoch = read_epoch();
    const uint32_t generation = atomic_load(&code_generation);
    if (c->generation != generation) {
        ct_stack_cache_clear(&c->cache); // R5
        c->generation = generation;
    }
    if (atomic_load(&no_shortcuts)) { // self.epoch stays void: each capture comes here
        if (atomic_load(&with_python))
            return capture_with_python(ring, f, python_only);
        return capture_by_libunwind(ring, f->pc);
    }
    self.ring = ring;
    self.epoch = epoch;
    return capture_in_epoch(f, python_only);
}

// The capture has met new code, so an interpreter may have been loaded. libunwind has just asked
// the loader about that code: to ask once more adds no risk that was not there.
static __attribute__((noinline)) uint32_t rescan_and_capture(const struct ct_walk_frame *f,
                                                             uint32_t id, int python_only) {
    const int saved = errno;
    self.learned = 0;
    if (atomic_load(&with_python) || !id)
        return id;
    ct_capture_rescan();
    errno = saved;
    return atomic_load(&with_python) ? capture_with_python(ct_ring_claim(), f, python_only) : id;
}

// Whether the caller is a signal handler that has interrupted a capture. If not, a handler has left
// that capture by siglongjmp: what it was changing is void.
static __attribute__((noinline, cold)) int is_interrupting(uintptr_t frame) {
    struct ct_ring *const ring = ct_ring_claimed();
    if (ct_enclosing_is_lost(ct_enclosing_find(frame, self.busy, NULL)))
        return 1;
    atomic_store(&ring->unwinding, 0);
    atomic_store(&ring->in_python, 0);
    if (ring->capture)
        reset_for_thread(ring->capture, ring->claim);
    self.busy = 0;
    return 0;
}

static inline uint32_t capture_at(const struct ct_walk_frame *f, int python_only) {
    const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    if (__builtin_expect(self.busy != 0, 0) && is_interrupting(frame))
        return 0;
    self.busy = frame;
    atomic_signal_fence(memory_order_seq_cst);
    const uint32_t epoch = read_epoch();
    uint32_t id;
    if (__builtin_expect(self.epoch == epoch && epoch, 1))
        id = capture_in_epoch(f, python_only);
    else
        id = enter_epoch_and_capture(f, python_only);
    if (__builtin_expect(self.learned, 0))
        id = rescan_and_capture(f, id, python_only);
    atomic_signal_fence(memory_order_seq_cst);
    self.busy = 0;
    return id;
}

// The frame that called one of the functions below. This library is compiled with frame pointers:
// the caller's rbp lies where ours points to, and the return address follows it.
#define CALLER(frame)                                                                   \
    {                                                                                   \
        .base = (uintptr_t) & (frame)[1], .pc = (uintptr_t)__builtin_return_address(0), \
        .sp = (uintptr_t) & (frame)[2], .rbp_at = (uintptr_t) & (frame)[0]              \
    }

__attribute__((noinline)) uint32_t ct_capture_stack(void) {
    const uintptr_t *const frame = __builtin_frame_address(0);
    const struct ct_walk_frame f = CALLER(frame);
    return capture_at(&f, 0);
}

__attribute__((noinline)) uint32_t ct_capture_python_stack(void) {
    const uintptr_t *const frame = __builtin_frame_address(0);
    const struct ct_walk_frame f = CALLER(frame);
    return capture_at(&f, 1);
}

const void *ct_capture_caller(void) {
    const struct ct_stack_entry *const e = ct_stack_table_get(ct_capture_stack());
    for (uint32_t i = 0; e && i < e->frames; i++)
        if (ct_frame_word_is_native(e->frame[i]))
            return (const void *)(uintptr_t)e->frame[i];
    return NULL;
}

// ---- moments ------------------------------------------------------------------------------------

void ct_capture_init(void) {
    ct_unwind_init();
    ct_own_code_find();
    ct_rule_init();
    check_every = CT_OPTION_NUMBER(CHECK_STACKS);
    ct_loaded_modules_on_unload(ct_capture_forget_code);
    _Atomic uint32_t *page = ct_pages_wiped_on_fork();
    if (page)
        atomic_store(&current_epoch, page);
    begin_epoch();
}

void ct_capture_rescan(void) {
    static _Atomic uint64_t scanned;
    const uint32_t wanted = (uint32_t)CT_OPTION_NUMBER(STACKS);
    if ((wanted != CT_STACKS_OF_BOTH && wanted != CT_STACKS_OF_PYTHON) ||
        atomic_load(&with_python) || ct_loader_gate_enter())
        return;
    const uint64_t loaded = ct_loaded_modules_count_loads();
    ct_loader_gate_leave();
    if (atomic_load(&scanned) == loaded)
        return;
    const int found = ct_python_find();
    if (found < 0)
        return; // another time: these objects are not scanned yet
    atomic_store(&scanned, loaded);
    if (found)
        atomic_store(&with_python, 1);
}

// The epoch comes last: a thread that sees it clears its cache (R5), and learns rules that are not
// the old ones.
void ct_capture_forget_code(void) {
    ct_rule_forget_all();
    ct_unwind_forget_code();
    atomic_fetch_add(&code_generation, 1);
    begin_epoch();
}

void ct_capture_reinit_child(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next) {
        capture_free(r->capture);
        r->capture = NULL;
    }
    ct_python_reinit_child();
    self.busy = 0;
    begin_epoch();
}

void ct_capture_disable(void) {
    ct_unwind_disable();
    atomic_store(&is_disabled, 1);
    begin_epoch();
}

// ---- counts -------------------------------------------------------------------------------------

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

void ct_capture_publish_info(void) {
    const struct ct_capture_counts n = ct_capture_counts();
    ct_info_set("recorder.stacks_recalled", "%lu", n.recalled);
    ct_info_set("recorder.stacks_walked", "%lu", n.walked);
    ct_info_set("recorder.stacks_unwound", "%lu", n.unwound);
    ct_python_publish_info();
    if (!check_every)
        return;
    ct_info_set("recorder.stack_checks", "%lu", n.checks);
    ct_info_set("recorder.stack_mismatches", "%lu", n.mismatches);
}

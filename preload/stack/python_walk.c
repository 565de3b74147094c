// SPDX-License-Identifier: Apache-2.0
// Walking the Python frames of the calling thread. See python_walk.h for what makes it safe and
// right.
#include "stack/python_walk.h"

#include <errno.h>

#include <cutrace/format/assert.h>

#include "stack/python_code.h"
#include "stack/python_find.h"
#include "stack/python_gate.h"
#include "store/ring.h"
#include "store/stack_hash.h"

static const struct ct_python_layout *const layout = &ct_python.layout;

// ---- stamps -------------------------------------------------------------------------------------

// Content hashes within one walk, by code object: the number + 1 of the last frame whose code has
// this place. No code object goes away during a walk, so each is hashed once.
enum { HASHED = 32 };
struct hashed_code {
    uint32_t frame[HASHED];
    struct ct_python_code_file file;
};

static uint64_t hash_content(uintptr_t code, struct hashed_code *hashed,
                             const struct ct_python_frame *frame, size_t n) {
    uint32_t *at = &hashed->frame[(code >> 5 ^ code >> 10) % HASHED];
    const struct ct_python_frame *before = *at ? &frame[*at - 1] : NULL;
    *at = (uint32_t)n + 1;
    if (before && before->code == code)
        return before->stamp;
    return ct_python_code_hash(layout, code, &hashed->file);
}

// The stamp (P7) of the code that becomes frame[n].
static inline uint64_t stamp_of(uintptr_t code, struct hashed_code *hashed,
                                const struct ct_python_frame *frame, size_t n) {
    const uint32_t version =
        layout->version ? (uint32_t)ct_python_load_int(code + layout->version) : 0;
    if (__builtin_expect(version != 0, 1))
        return (uint64_t)(uint32_t)ct_python_load_int(code + layout->first_line) << 32 | version;
    return hash_content(code, hashed, frame, n);
}

// ---- one frame ----------------------------------------------------------------------------------

// The innermost frame of the chain.
static inline uintptr_t chain_head(uintptr_t thread, uintptr_t cframe) {
    return ct_python_load_word((layout->current_in_cframe ? cframe : thread) + layout->current);
}

// The number of the bytecode's copy stands above all addresses of user space.
#define COPY_SHIFT 48

static inline uintptr_t instruction_of(uintptr_t f, uintptr_t code) {
    const uintptr_t at = f + layout->instruction;
    if (layout->lines != CT_LINES_LOCATIONS)
        return (uintptr_t)(intptr_t)ct_python_load_int(at);
    if (__builtin_expect(layout->copies != 0, 0))
        return ct_python_load_word(at) | (uintptr_t)ct_python_load_int(f + layout->copy)
                                             << COPY_SHIFT;
    return ct_python_load_word(at) - code - layout->bytecode;
}

// Python does not show a frame that has not reached its first line either. The code before the
// first line is short, so most frames need no load here.
static inline int is_incomplete(uintptr_t f, uintptr_t code, uintptr_t instruction) {
    const intptr_t offset = (intptr_t)instruction;
    return layout->traceable && offset < 256 &&
           offset < 2 * ct_python_load_int(code + layout->traceable) &&
           ct_python_load_byte(f + layout->owner) != CT_PYTHON_GENERATOR;
}

// Adds a frame as frame[n]. Returns 1, 0 if it is not to be shown, -1 if this is no frame.
static inline int add_frame(uintptr_t f, struct ct_python_frame *frame, size_t n,
                            struct hashed_code *hashed) {
    const uintptr_t code = ct_python_load_word(f + layout->code) & ~(uintptr_t)3;
    if (__builtin_expect(!code || ct_python_load_word(code + layout->type) !=
                                      (uintptr_t)ct_python.PyCode_Type,
                         0))
        return -1;
    const uintptr_t instruction = instruction_of(f, code);
    if (is_incomplete(f, code, instruction))
        return 0;
    frame[n] = (struct ct_python_frame){code, instruction, stamp_of(code, hashed, frame, n), 0};
    return 1;
}

// Until 3.10: a generator that waits for another one, into which an exception is thrown. (To a
// trace function, one that is just resumed looks the same.)
static inline int is_waiting_generator(uintptr_t f) {
    if (!ct_python_load_word(f + layout->generator) ||
        ct_python_load_int(f + layout->instruction) < 0)
        return 0;
    if (layout->executing)
        return !ct_python_load_byte(f + layout->executing);
    return ct_python_load_int(f + layout->depth) >= 0;
}

// The anchor of an activation of the evaluation loop, if `f` is the outermost frame that it runs,
// else 0. *cframe moves from that activation to the one that called it.
static inline uintptr_t anchor_of(uintptr_t f, uintptr_t *cframe) {
    const uintptr_t here = *cframe;
    switch (layout->chain) {
    case CT_CHAIN_SHIMS:
        return ct_python_load_byte(f + layout->owner) >= CT_PYTHON_SHIM ? f : 0;
    case CT_CHAIN_PLAIN:
        return is_waiting_generator(f) ? 0 : CT_PYTHON_ANYWHERE;
    case CT_CHAIN_CFRAMES:
        if (is_waiting_generator(f))
            return 0;
        *cframe = here ? ct_python_load_word(here + layout->cframe_previous) : 0;
        return here ? here : CT_PYTHON_ANYWHERE;
    case CT_CHAIN_CURRENT:
    default:
        break;
    }
    const uintptr_t outer = here ? ct_python_load_word(here + layout->cframe_previous) : 0;
    if (!outer ||
        ct_python_load_word(f + layout->previous) != ct_python_load_word(outer + layout->current))
        return 0;
    *cframe = outer;
    return here;
}

static inline uint64_t hash_frame(uint64_t hash, const struct ct_python_frame *f) {
    const uint64_t k = UINT64_C(0xE7037ED1A0B428DB);
    return ct_stack_hash_mix(hash ^ f->code, f->stamp ^ f->instruction * k ^ k);
}

// ---- the chain ----------------------------------------------------------------------------------

static size_t walk_chain(uintptr_t thread, struct ct_python_frame *frame, size_t most,
                         uint64_t *hash, int *more) {
    uintptr_t cframe = layout->cframe ? ct_python_load_word(thread + layout->cframe) : 0;
    uintptr_t f = chain_head(thread, cframe);
    const uintptr_t interpreter = ct_python_load_word(thread + layout->interp);
    uint64_t h = ct_python_runs;
    size_t n = 0;
    struct hashed_code hashed = {{0}, {0, 0}};
    if (__builtin_expect(interpreter != ct_python_main_interpreter, 0))
        h ^= (uint64_t)ct_python.PyInterpreterState_GetID((void *)interpreter) << 32;
    for (; f; f = ct_python_load_word(f + layout->previous)) {
        const uintptr_t anchor = anchor_of(f, &cframe);
        if (layout->chain != CT_CHAIN_SHIMS || !anchor) {
            if (n == most) {
                *more = 1;
                break;
            }
            const int added = add_frame(f, frame, n, &hashed);
            if (__builtin_expect(added < 0, 0))
                break;
            if (added)
                h = hash_frame(h, &frame[n++]);
        }
        if (anchor && n && !frame[n - 1].anchor)
            frame[n - 1].anchor = anchor;
    }
    // 3.9 loses the frames that come after a waiting generator: the generator stands for the one
    // that called it.
    if (!*more && n && !frame[n - 1].anchor)
        frame[n - 1].anchor = CT_PYTHON_ANYWHERE;
    *hash = h | !h;
    CT_ASSERT(n <= most && *hash);
    return n;
}

size_t ct_python_walk(struct ct_ring *ring, struct ct_python_frame *frame, size_t most,
                      uint64_t *hash, int *more) {
    size_t n = 0;
    *hash = 0;
    *more = 0;
    if (ct_python_gate_enter(ring)) {
        const uintptr_t thread = (uintptr_t)ct_python.PyGILState_GetThisThreadState();
        n = thread ? walk_chain(thread, frame, most, hash, more) : 0;
    }
    ct_python_gate_leave(ring);
    return n;
}

// ---- describing a frame -------------------------------------------------------------------------

// The offset in bytes of the frame's instruction in its code, -1 if it cannot be told.
static long offset_of(const struct ct_python_frame *f) {
    uintptr_t copies, base;
    const intptr_t at = (intptr_t)f->instruction;
    if (!layout->copies)
        return layout->lines == CT_LINES_RANGES ? at * 2 : at;
    if (ct_python_probe_word(f->code + layout->copies, &copies) || // P4
        ct_python_probe_word(copies + ct_python_copy_entry(f->instruction >> COPY_SHIFT), &base))
        return -1;
    return (long)((f->instruction & ((UINT64_C(1) << COPY_SHIFT) - 1)) - base);
}

uint64_t ct_python_intern_frame(struct ct_ring *ring, const struct ct_python_frame *frame) {
    const int saved = errno;
    uint32_t text = 0, line = 0;
    if (ct_python_gate_enter(ring)) {
        line = ct_python_code_line(layout, frame->code, offset_of(frame));
        text = ct_python_code_intern(layout, frame->code);
    }
    ct_python_gate_leave(ring);
    errno = saved;
    return text ? ct_frame_word_python(text, line) : 0;
}
